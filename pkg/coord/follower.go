package coord

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/coord/replication"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// followerState is another replica as a term sees it.
type followerState struct {
	node meta.NodeID
	link *lateLink
	rep  *replication.Replicator

	// guarded by the term's mutex
	incarnation uint64      // of the node's process, in metadata
	down        bool        // metadata says so
	said        ReplicaView // all that metadata says of it
	began       uint64      // incarnation when the session began
	connected   bool
	refused     bool                 // its machine says that nobody listens
	holds       replication.Progress // zero but for Session when a session begins
	caughtUp    time.Time            // when it is last known to have held all there was
	mark        seq.Offset           // the log's end
	markAt      time.Time            // when it was there
	rate        rate
	moved       time.Time // when it last got something, or lacked nothing
	stalled     bool      // termOptions.Stalled was told
	drag        drag
	slowTold    bool // termOptions.Slow was told
}

// newFollower returns a follower of a term, which is not connected yet.
func newFollower(t *Term, n meta.NodeID, v View) *followerState {
	f := &followerState{node: n, link: &lateLink{ready: make(chan struct{})}}
	f.moved = t.o.Now()
	if slices.Contains(v.ISR, n) {
		f.caughtUp = f.moved // it has until now plus ReplicaLag
	}
	w := watch{t, f}
	f.rep = replication.NewReplicator(replication.ReplicatorOptions{
		Log: t.o.Log, Partition: t.o.Partition, Epoch: t.Epoch(), Sizes: t.o.Sizes, Shares: &t.shares, Credit: t.o.Credits.To(n), CatchUp: t.o.CatchUp, Stored: t.o.Stored,
		Caller: f.link, Now: t.o.Now,
		Events: replication.Events{
			Acked: w.acked, Forget: w.forget, Superseded: t.supersede, Compare: w.compare, Longer: w.longer, Unreadable: t.o.Unreadable,
		},
	}, t.o.paceOf(v, n))
	return f
}

// stalls returns whether the follower makes no progress: it lacks something, and has
// got nothing for StallAfter. One whose node is down need not.
func (f *followerState) stalls(now time.Time, end seq.Offset, shares uint64) bool {
	if f.down || !f.holds.At.IsZero() && f.holds.End >= end && f.holds.Shares >= shares {
		f.moved = now
	}
	return now.Sub(f.moved) >= StallAfter
}

// setStalled notes whether the follower makes no progress, and tells it where it was
// otherwise before: see termOptions.Stalled.
func (f *followerState) setStalled(stalled bool, tell func(meta.NodeID, time.Time, string)) {
	if stalled == f.stalled {
		return
	}
	f.stalled = stalled
	switch {
	case tell == nil:
	case stalled:
		tell(f.node, f.moved, f.trouble())
	default:
		tell(f.node, time.Time{}, "")
	}
}

// setSlow reports whether the follower holds everyone up, where that has changed: see
// termOptions.Slow.
func (f *followerState) setSlow(now time.Time, window time.Duration, tell func(meta.NodeID, time.Time)) {
	if f.drag.slow == f.slowTold {
		return
	}
	f.slowTold = f.drag.slow
	switch {
	case tell == nil:
	case f.slowTold:
		tell(f.node, now.Add(-window))
	default:
		tell(f.node, time.Time{})
	}
}

// trouble says for people why the follower gets nothing.
func (f *followerState) trouble() string {
	if !f.connected {
		return "not connected to the follower's node"
	}
	_, _, why := f.rep.State()
	return cmp.Or(why, "the follower's node does not respond")
}

// advance takes over what a follower has said of itself. What belongs to an
// earlier session, or to one with an earlier life of the node, is refused. Answers
// may come in another order than they were given.
func (f *followerState) advance(now time.Time, p replication.Progress) bool {
	if p.Session != f.holds.Session || f.began != f.incarnation {
		return false
	}
	p.End, p.Shares, p.Committed = max(p.End, f.holds.End), max(p.Shares, f.holds.Shares), max(p.Committed, f.holds.Committed)
	if p.At.Before(f.holds.At) {
		p.At = f.holds.At
	}
	if p.End > f.holds.End || p.Shares > f.holds.Shares || p.Committed > f.holds.Committed {
		f.moved = now
	}
	f.holds = p
	return true
}

// observe notes how far the follower is, at a moment at which the log ends at end.
func (f *followerState) observe(now time.Time, end seq.Offset) {
	known := f.holds.Session > 0 && !f.holds.At.IsZero()
	switch {
	case known && f.holds.End >= end:
		f.caughtUp = now
	case known && f.holds.End >= f.mark && f.markAt.After(f.caughtUp):
		f.caughtUp = f.markAt
	}
	if known && f.holds.End >= f.mark || f.markAt.IsZero() {
		f.mark, f.markAt = end, now
	}
	f.rate.observe(now, f.holds.Bytes)
}

// heldAll notes that the follower has held all that there was up to now, whenever
// it was observed last.
func (f *followerState) heldAll(now time.Time) { f.caughtUp, f.markAt, f.moved = now, now, now }

// has reports whether the follower holds all of a log and its shares, and knows it
// as committed.
func (f *followerState) has(end seq.Offset, shares uint64) bool {
	return !f.holds.At.IsZero() && f.holds.End >= end && f.holds.Committed >= end && f.holds.Shares >= shares
}

// tell lets idle followers know what is committed; with always they are asked in
// any case whether they still recognise the term.
func tell(followers []*followerState, always bool) {
	for _, f := range followers {
		f.rep.Tell(always)
	}
}

// stats returns how the follower is doing, but for what its replicator knows. end
// is that of the leader's log.
func (f *followerState) stats(now time.Time, end seq.Offset) FollowerStats {
	s := FollowerStats{Node: f.node, Connected: f.connected, Acked: f.holds.End, Since: f.caughtUp, BytesPerSecond: f.rate.perSecond}
	if f.holds.End >= end && !f.holds.At.IsZero() {
		s.Since = now
	}
	s.Lag = max(0, int64(end)-int64(s.Acked))
	return s
}

// stop ends the link and everything that is done about the follower.
func (f *followerState) stop() {
	f.link.Close()
	f.rep.Stop()
}

// rate is how fast what a follower lacks grows less.
type rate struct {
	at        time.Time
	bytes     int64
	perSecond int64
}

func (r *rate) observe(now time.Time, lacking int64) {
	d := now.Sub(r.at)
	if r.at.IsZero() || lacking == 0 && r.bytes == 0 {
		r.at, r.bytes, r.perSecond = now, lacking, 0
		return
	}
	if d < time.Second {
		return
	}
	r.perSecond = int64(float64(r.bytes-lacking) / d.Seconds())
	r.at, r.bytes = now, lacking
}

// lateLink is a link that may be asked for before it is there: its events may
// come before Follow has returned.
type lateLink struct {
	ready chan struct{} // closed when link is set
	set   atomic.Bool   // likewise, for less than a receive takes
	link  Link
}

// get returns the link once it is there.
func (l *lateLink) get() Link {
	if !l.set.Load() {
		<-l.ready
	}
	return l.link
}

func openLink(p Peers, node meta.NodeID, l *lateLink, e LinkEvents) {
	l.link = p.Follow(node, e)
	l.set.Store(true)
	close(l.ready)
}

// Go implements replication.Caller.
func (l *lateLink) Go(kind uint8, payload [][]byte, done func([]byte, error)) {
	l.get().Go(kind, payload, done)
}

// gather has what the link sends gather in a round.
func (l *lateLink) gather(with *vfs.Gathering) {
	if g, ok := l.get().(interface{ Gatherer() vfs.Gatherer }); ok {
		with.Hold(g.Gatherer())
	}
}

// Close ends the link.
func (l *lateLink) Close() {
	l.get().Close()
}

// FollowerStats is how a follower of a term is doing.
type FollowerStats struct {
	Node      meta.NodeID
	Connected bool
	Acked     seq.Offset // it holds everything below; 0: nothing is known
	Lag       int64      // messages that it lacks
	LagBytes  int64      // about as many bytes
	// Since is when it was last known to have held all that there was: now, for
	// one that keeps up.
	Since time.Time
	State string // as replication.State names them
	// BytesPerSecond is how fast what it lacks grows less.
	BytesPerSecond int64
}
