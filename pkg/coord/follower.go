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

// followerState is the state of another replica in a term.
type followerState struct {
	node meta.NodeID
	link *lateLink
	rep  *replication.Replicator

	// Guarded by the term's mutex.
	incarnation uint64      // of the node's process, in metadata
	down        bool        // according to the metadata
	said        ReplicaView // the metadata of the replica
	began       uint64      // incarnation at the beginning of the session
	connected   bool
	refused     bool                 // its machine refuses connections
	holds       replication.Progress // zero except for Session when a session begins
	caughtUp    time.Time            // when it is last known to have held everything
	mark        seq.Offset           // the log's end
	markAt      time.Time            // when the log's end was reached
	rate        rate
	moved       time.Time // when it last received something, or lacked nothing
	stalled     bool      // ReplicaOptions.Stalled was called
	drag        drag
	slowTold    bool // ReplicaOptions.Slow was called
}

// newFollower returns an unconnected follower of a term.
func newFollower(t *Term, n meta.NodeID, v View) *followerState {
	f := &followerState{node: n, link: &lateLink{ready: make(chan struct{})}}
	f.moved = t.o.Now()
	if slices.Contains(v.ISR, n) {
		f.caughtUp = f.moved // it has ReplicaLag from now on
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

// stalls reports whether the follower makes no progress: it lacks something, and has received
// nothing for StallAfter. A follower whose node is down does not count.
func (f *followerState) stalls(now time.Time, end seq.Offset, shares uint64) bool {
	if f.down || !f.holds.At.IsZero() && f.holds.End >= end && f.holds.Shares >= shares {
		f.moved = now
	}
	return now.Sub(f.moved) >= StallAfter
}

// setStalled records whether the follower makes no progress, and reports a change: see
// ReplicaOptions.Stalled.
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

// setSlow reports a change of whether the follower delays all others: see ReplicaOptions.Slow.
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

// trouble describes why the follower receives nothing.
func (f *followerState) trouble() string {
	if !f.connected {
		return "not connected to the follower's node"
	}
	_, _, why := f.rep.State()
	return cmp.Or(why, "connected, but no batch is answered: the disk of the follower's node hangs, or the network loses large packets (MTU)")
}

// advance applies a follower's report. Reports of an earlier session, or of a session with an
// earlier process of the node, are refused. Answers may arrive out of order.
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

// observe records the follower's state at a moment at which the log ends at end.
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

// heldAll records that the follower has held everything up to now, whenever it was last observed.
func (f *followerState) heldAll(now time.Time) { f.caughtUp, f.markAt, f.moved = now, now, now }

// has reports whether the follower holds all of a log and its shares, and knows that it is
// committed.
func (f *followerState) has(end seq.Offset, shares uint64) bool {
	return !f.holds.At.IsZero() && f.holds.End >= end && f.holds.Committed >= end && f.holds.Shares >= shares
}

// tellAfter is how long nothing must have been sent to a follower before a tick sends it the
// committed end. With a few messages a second, the next batch carries it.
const tellAfter = 350 * time.Millisecond

// tell sends the committed end to the followers that do not know it, and to which nothing was sent for
// a time. With always it asks all of them whether they still recognise the term.
func tell(followers []*followerState, always bool, rest time.Duration) {
	for _, f := range followers {
		f.rep.Tell(always, rest)
	}
}

// stats returns the follower's statistics, except those of its replicator. end is that of the
// leader's log.
func (f *followerState) stats(now time.Time, end seq.Offset) FollowerStats {
	s := FollowerStats{Node: f.node, Connected: f.connected, Acked: f.holds.End, Since: f.caughtUp, BytesPerSecond: f.rate.perSecond}
	if f.holds.End >= end && !f.holds.At.IsZero() {
		s.Since = now
	}
	s.Lag = max(0, int64(end)-int64(s.Acked))
	return s
}

// stop closes the link and ends all work for the follower.
func (f *followerState) stop() {
	f.link.Close()
	f.rep.Stop()
}

// rate measures how fast a follower's lag shrinks.
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

// lateLink is a link that may be used before it exists: its events may arrive before Follow has
// returned.
type lateLink struct {
	ready chan struct{} // closed when link is set
	set   atomic.Bool   // likewise; cheaper than a receive
	link  Link
}

// get waits for the link and returns it.
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

// gather makes the link's messages of a round leave together. It does not wait: a link that is not open yet sends nothing.
func (l *lateLink) gather(with *vfs.Gathering) {
	if !l.set.Load() {
		return
	}
	if g, ok := l.link.(interface{ Gatherer() vfs.Gatherer }); ok {
		with.Hold(g.Gatherer())
	}
}

// Close ends the link.
func (l *lateLink) Close() {
	l.get().Close()
}

// FollowerStats are the statistics of a follower of a term.
type FollowerStats struct {
	Node      meta.NodeID
	Connected bool
	Acked     seq.Offset // it holds everything below; 0: unknown
	Lag       int64      // messages that it lacks
	LagBytes  int64      // approximate bytes of these messages
	// Since is when it was last known to have held everything: now, if it keeps up.
	Since time.Time
	State string // a name of replication.State
	// BytesPerSecond is how fast its lag shrinks.
	BytesPerSecond int64
}
