package coord

import (
	"errors"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/coord/isr"
	"github.com/brokerd/brokerd/pkg/coord/replication"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
)

const (
	// proposeAgain is how long after one proposal came to nothing, or nothing was
	// heard of it, the next is made.
	proposeAgain = time.Second
	// quietQuorum is the age of the node's contact to the metadata's quorum at
	// which a term begins to ask its followers whether they still recognise it.
	quietQuorum = 500 * time.Millisecond
)

// proposal is a change of the in-sync set that was asked for and that metadata
// has not passed. Until then who is to join counts: it may be decided long after
// anybody waits for it.
type proposal struct {
	change  ISRChange
	open    bool      // metadata has not passed its version
	waiting bool      // the outcome has not been told
	unsure  bool      // one for the same version may yet be decided
	again   time.Time // when another may be made
}

// Update gives the term a newer version of metadata at the same epoch, or the
// same version with another state of its nodes. Older ones are ignored.
func (t *Term) Update(v View) {
	t.mu.Lock()
	if t.ended || v.Epoch != t.Epoch() || v.Version < t.view.Version {
		t.mu.Unlock()
		return
	}
	if v.Version > t.view.Version {
		t.tracker.Apply(v.ISR)
		t.proposal = proposal{}
	}
	t.view = v
	t.tracker.Require(v.MinISR, t.start)
	var added, removed, anew []*follower
	if t.o.Peers != nil {
		added, removed = t.refollowLocked()
	}
	for _, f := range *t.followers.Load() {
		r, _ := v.replica(f.node)
		if r.Incarnation != f.incarnation && !slices.Contains(added, f) {
			anew = append(anew, f)
		}
		f.incarnation, f.down = r.Incarnation, r.Down
	}
	t.releaseLocked()
	change, due := t.reconsiderLocked(t.o.Now())
	t.mu.Unlock()

	t.syncer.SetPolicy(v.Sync)
	for _, f := range removed {
		f.stop()
	}
	for _, f := range added {
		openLink(t.o.Peers, f.node, f.link, t.eventsOf(f))
	}
	for _, f := range *t.followers.Load() {
		f.rep.SetPace(t.paceOf(v, f.node))
	}
	for _, f := range anew {
		t.restart(f)
	}
	t.propose(change, due)
}

// paceOf returns how a follower is served.
func (t *Term) paceOf(v View, node meta.NodeID) replication.Pace {
	p := replication.Pace{Sync: v.Sync.Always()}
	if !slices.Contains(v.ISR, node) {
		p.Window = catchUpWindow
	}
	return p
}

// replica returns what the view says of a node.
func (v View) replica(node meta.NodeID) (ReplicaView, bool) {
	i := slices.IndexFunc(v.Replicas, func(r ReplicaView) bool { return r.Node == node })
	if i < 0 {
		return ReplicaView{Node: node}, false
	}
	return v.Replicas[i], true
}

// refollowLocked makes the followers match the view.
func (t *Term) refollowLocked() (added, removed []*follower) {
	have := *t.followers.Load()
	var all []*follower
	want := make([]meta.NodeID, 0, len(t.view.Replicas))
	for _, r := range t.view.Replicas {
		want = append(want, r.Node)
	}
	for _, n := range t.view.ISR {
		if !slices.Contains(want, n) {
			want = append(want, n)
		}
	}
	for _, n := range want {
		if n == t.o.Self {
			continue
		}
		i := slices.IndexFunc(have, func(f *follower) bool { return f.node == n })
		if i >= 0 {
			all = append(all, have[i])
			continue
		}
		f := t.newFollower(n)
		all, added = append(all, f), append(added, f)
	}
	for _, f := range have {
		if !slices.Contains(all, f) {
			removed = append(removed, f)
			t.tracker.Forget(f.node)
		}
	}
	if len(added)+len(removed) > 0 {
		t.followers.Store(&all)
	}
	return added, removed
}

func (t *Term) newFollower(n meta.NodeID) *follower {
	f := &follower{node: n, link: &lateLink{ready: make(chan struct{})}, caughtUp: t.o.Now()}
	f.rep = replication.NewReplicator(replication.ReplicatorOptions{
		Log: t.o.Log, Partition: t.o.Partition, Epoch: t.Epoch(), Shares: &t.shares, Caller: f.link, Now: t.o.Now,
		Events: replication.Events{
			Acked:      func(p replication.Progress) { t.acked(f, p) },
			Forget:     func(session uint64) { t.forget(f, session) },
			Superseded: t.supersede,
		},
	}, t.paceOf(t.view, n))
	return f
}

// eventsOf returns what a follower's link does to it.
func (t *Term) eventsOf(f *follower) LinkEvents {
	return LinkEvents{
		Up: func() {
			t.mu.Lock()
			f.connected, f.refused = true, false
			t.mu.Unlock()
			f.rep.Connected()
		},
		Down: func(refused bool) {
			t.mu.Lock()
			f.connected, f.refused = false, refused
			t.mu.Unlock()
			f.rep.Disconnected()
			t.mu.Lock()
			change, due := t.reconsiderLocked(t.o.Now())
			t.mu.Unlock()
			t.propose(change, due)
		},
	}
}

// restart begins a new session with a follower whose node is another process by
// now: what the one before said counts for nothing.
func (t *Term) restart(f *follower) {
	t.mu.Lock()
	connected := f.connected
	t.mu.Unlock()
	if connected {
		f.rep.Connected()
	}
}

// forget notes that a session of a follower begins, or none is left.
func (t *Term) forget(f *follower, session uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if session > f.holds.Session {
		f.holds = replication.Progress{Session: session}
		f.began = f.incarnation
		t.tracker.Forget(f.node)
	}
}

// acked notes what a follower has.
func (t *Term) acked(f *follower, p replication.Progress) {
	t.mu.Lock()
	if t.ended || p.Session != f.holds.Session {
		t.mu.Unlock()
		return
	}
	p.End, p.Shares, p.Committed = max(p.End, f.holds.End), max(p.Shares, f.holds.Shares), max(p.Committed, f.holds.Committed)
	if p.At.Before(f.holds.At) {
		p.At = f.holds.At
	}
	f.holds = p
	t.tracker.Ack(f.node, p.End)
	t.releaseLocked()
	sealed := t.sealed != nil
	var change ISRChange
	var due bool
	if !slices.Contains(t.view.ISR, f.node) {
		change, due = t.reconsiderLocked(p.At)
	}
	t.mu.Unlock()
	if sealed {
		t.tell(false)
	}
	t.propose(change, due)
}

// tell lets idle followers know what is committed.
func (t *Term) tell(always bool) {
	for _, f := range *t.followers.Load() {
		f.rep.Tell(always)
	}
}

// supersede ends the term: a replica knows a newer epoch.
func (t *Term) supersede(epoch seq.Epoch) {
	t.mu.Lock()
	first := !t.ended
	t.endLocked(ErrNotLeading)
	t.mu.Unlock()
	if first && t.o.Superseded != nil {
		go t.o.Superseded(epoch)
	}
}

// Tick does what is due now and then, at least every few hundred milliseconds
// while the partition has other replicas: it judges who lags, tells idle followers
// what is committed, and settles entries that have waited for too long. contact is
// when this node was last in touch with the metadata's quorum.
func (t *Term) Tick(now, contact time.Time) {
	t.mu.Lock()
	if t.ended {
		t.mu.Unlock()
		return
	}
	end := t.o.Log.End()
	for _, f := range *t.followers.Load() {
		f.observe(now, end)
	}
	t.expireLocked(now)
	change, due := t.reconsiderLocked(now)
	t.mu.Unlock()
	t.tell(now.Sub(contact) > quietQuorum)
	t.propose(change, due)
}

// expireLocked gives up waiting for what was not committed in time. What was not
// even written then is refused.
func (t *Term) expireLocked(now time.Time) {
	if len(t.queue) == 0 || now.Sub(t.queue[0].since) < t.o.PublishTimeout {
		return
	}
	for _, g := range t.queue {
		g.expired = now.Sub(g.since) >= t.o.PublishTimeout
	}
	if !t.stalled {
		t.stalled = true
		t.room.Broadcast() // those who wait for room are refused
	}
	t.releaseLocked()
}

// reconsiderLocked returns the change of the in-sync set that is due, if one is.
// Who is to join by it counts from now on.
func (t *Term) reconsiderLocked(now time.Time) (ISRChange, bool) {
	if t.ended || t.o.ProposeISR == nil || t.proposal.waiting || now.Before(t.proposal.again) {
		return ISRChange{}, false
	}
	if t.proposal.open && !t.proposal.unsure {
		return ISRChange{}, false
	}
	followers := *t.followers.Load()
	replicas := make([]isr.Replica, 0, 8)
	for _, f := range followers {
		replicas = append(replicas, isr.Replica{Node: f.node, Gone: f.down || f.refused, CaughtUp: f.caughtUp, Ready: t.readyLocked(f)})
	}
	next, due := isr.Next(now, t.o.ReplicaLag, t.view.ISR, replicas)
	if !due {
		if !t.proposal.unsure {
			return ISRChange{}, false
		}
		// Nobody knows what became of the last one. A change to what is has the
		// metadata pass its version.
		next = isr.Change{ISR: t.view.ISR, Why: "to settle an earlier change"}
	}
	c := ISRChange{Epoch: t.Epoch(), Version: t.view.Version, ISR: next.ISR, Joiner: next.Joiner, Why: next.Why}
	for _, f := range followers {
		if f.node == next.Joiner {
			c.Incarnation = f.began
		}
	}
	t.tracker.Propose(c.ISR)
	t.proposal = proposal{change: c, open: true, waiting: true, unsure: t.proposal.unsure}
	return c, true
}

// readyLocked tells whether a follower holds all that a member must hold: what is
// committed, what the term inherited, and what was shared.
func (t *Term) readyLocked(f *follower) bool {
	last, snapshot := t.shares.Last()
	return f.connected && snapshot && f.holds.Shares >= last && !f.holds.At.IsZero() &&
		f.began == f.incarnation && f.holds.End >= max(t.tracker.Committed(), t.start)
}

// propose asks for a change, if one is due. No lock is held.
func (t *Term) propose(c ISRChange, due bool) {
	if due {
		t.o.ProposeISR(t, c)
	}
}

// ISRProposed tells what became of a change that was asked for. With no error,
// or one that says that metadata has moved on, Update brings the answer. After
// another refusal the change is withdrawn. Anything else leaves it open: it
// counts until metadata passes the version it was made for.
func (t *Term) ISRProposed(c ISRChange, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := &t.proposal
	if !p.waiting || c.Version != p.change.Version || t.ended {
		return
	}
	p.waiting = false
	p.again = t.o.Now().Add(proposeAgain)
	switch {
	case err == nil, errors.Is(err, meta.ErrStaleVersion), errors.Is(err, meta.ErrStaleEpoch):
		p.unsure = false
	case fate.Of(err) != fate.Refused:
		p.unsure = true
	case !p.unsure:
		t.proposal = proposal{again: p.again}
		t.tracker.Withdraw()
		t.releaseLocked()
	}
}

// Confirmed returns when every in-sync replica was last known to recognise this
// term: when the request was made that it answered. A term that is alone is
// recognised now; the zero time says that somebody has yet to answer.
func (t *Term) Confirmed() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	oldest := t.o.Now()
	for _, f := range *t.followers.Load() {
		if t.tracker.Counts(f.node) && f.holds.At.Before(oldest) {
			oldest = f.holds.At
		}
	}
	return oldest
}

// Followers returns how the followers are doing, in the order of assignment.
func (t *Term) Followers() []FollowerStats {
	end, now := t.o.Log.End(), t.o.Now()
	var all []FollowerStats
	for _, f := range *t.followers.Load() {
		state, p := f.rep.State()
		t.mu.Lock()
		s := FollowerStats{
			Node: f.node, Connected: f.connected, Acked: f.holds.End, Since: f.caughtUp,
			State: state.String(), LagBytes: p.Bytes, BytesPerSecond: f.rate.perSecond,
		}
		if f.holds.End >= end && !f.holds.At.IsZero() {
			s.Since = now
		}
		t.mu.Unlock()
		s.Lag = max(0, int64(end)-int64(s.Acked))
		all = append(all, s)
	}
	return all
}
