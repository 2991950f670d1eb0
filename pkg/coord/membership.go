package coord

import (
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/coord/isr"
	"github.com/brokerd/brokerd/pkg/coord/replication"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
)

// proposeAgain is the delay after a proposal that failed or was not answered.
const proposeAgain = time.Second

// verifyFor is how long a term waits for an in-sync replica to compare logs with, if its own log
// may be an older state of the disk and the topic accepts messages with one replica in sync. For
// other topics, which could accept none alone, it waits until such a replica comes, or an operator
// decides.
const verifyFor = 10 * time.Second

// Bounds for waiting on a follower that keeps up but is always slightly behind the committed end,
// because its round trip is longer than that of the others.
const (
	awaitFor   = 250 * time.Millisecond // at most
	awaitAgain = 2 * time.Second        // after a wait without success
)

// joinMargin is how many times fresher than a member's the last moment must be at which a joiner
// held everything. Holding everything committed is not enough: while nothing can be committed, a
// follower that receives nothing also holds that.
const joinMargin = 2

// membership holds the in-sync replicas of a term, the state of the other replicas, and the
// requested change. It only decides, and calls no other component. The term's lock guards it,
// except for the list of followers, which is replaced and never changed.
type membership struct {
	self       meta.NodeID
	lag        time.Duration
	start      seq.Offset // of the term
	before     seq.Epoch  // of the last batch before the term
	view       View
	logDamaged bool      // a part of the log cannot be read: followers that lag because of that are not removed
	alone      time.Time // when an unverified term that has found no other replica may continue alone; zero: it is verified
	tracker    *isr.Tracker
	proposal   proposal
	awaited    awaited
	idle       bool // the last Tick found nothing to do, and nothing has happened since
	list       atomic.Pointer[[]*followerState]
}

// proposal is a requested change of the in-sync set that the metadata has not passed. Until then
// the joiner counts: the change may be decided long after the request has timed out.
type proposal struct {
	change  ISRChange
	open    bool      // the metadata has not passed its version
	waiting bool      // the outcome has not been reported
	unsure  bool      // one for the same version may still be decided
	again   time.Time // when the next may be made
}

// awaited is a follower that counts before it is proposed: for a moment nothing is committed
// without it, so that it can hold everything that is.
type awaited struct {
	follower *followerState // nil: none
	until    time.Time
	again    time.Time // when a follower may be awaited again
}

func (m *membership) begin(o termOptions, start seq.Offset) {
	m.self, m.lag, m.start, m.before, m.view = o.Self, o.ReplicaLag, start, o.Log.LastEpoch(), o.View
	if o.Unverified {
		m.alone = o.Now().Add(verifyFor)
	}
	m.tracker = isr.New(o.View.ISR, o.Log.CommittedEnd())
	m.tracker.Require(o.View.MinISR, start)
	m.tracker.Ack(o.Self, start)
	m.list.Store(&[]*followerState{})
}

// followers returns the other replicas, in the order of assignment, without a lock.
func (m *membership) followers() []*followerState { return *m.list.Load() }

// few reports whether fewer replicas are in sync than the topic requires.
func (m *membership) few() bool { return len(m.view.ISR) < m.view.MinISR }

// apply applies a view, and returns the followers whose logs must be compared again: those whose
// node has a new process, and those that have left the in-sync set, possibly because they reported
// damage. Their earlier answers no longer count.
func (m *membership) apply(v View) (renewed []*followerState) {
	was := m.view.ISR
	if v.Version > m.view.Version {
		m.tracker.Apply(v.ISR)
		m.proposal, m.awaited.follower = proposal{}, nil
	}
	m.view = v
	m.tracker.Require(v.MinISR, m.start)
	for _, f := range m.followers() {
		f.drag.placed(slices.Contains(was, f.node), slices.Contains(v.ISR, f.node))
		r := v.replica(f.node)
		left := slices.Contains(was, f.node) && !slices.Contains(v.ISR, f.node)
		if left || r.Incarnation != f.incarnation {
			f.holds = replication.Progress{Session: f.holds.Session}
			f.began = ^r.Incarnation // ignore answers in transit
			m.tracker.Forget(f.node)
			renewed = append(renewed, f)
		}
		f.incarnation, f.down, f.said = r.Incarnation, r.Down, r
	}
	return renewed
}

// forget discards the state of a replica that does not count, and returns the follower, for a new
// session; ok is false if it counts.
func (m *membership) forget(node meta.NodeID) (f *followerState, ok bool) {
	joins := (m.proposal.open || m.proposal.unsure) && m.proposal.change.Joiner == node
	if joins || slices.Contains(m.view.ISR, node) {
		return nil, false
	}
	for _, f := range m.followers() {
		if f.node == node {
			f.holds = replication.Progress{Session: f.holds.Session}
			f.began = ^f.incarnation // ignore answers in transit
			m.tracker.Forget(node)
			return f, true
		}
	}
	return nil, true
}

// replica returns the view's entry of a node.
func (v View) replica(node meta.NodeID) ReplicaView {
	for _, r := range v.Replicas {
		if r.Node == node {
			return r
		}
	}
	return ReplicaView{Node: node}
}

// others returns the nodes that have a replica, or are in the in-sync set, except self.
func (v View) others(self meta.NodeID) []meta.NodeID {
	var all []meta.NodeID
	for _, r := range v.Replicas {
		all = append(all, r.Node)
	}
	for _, n := range v.ISR {
		if !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return slices.DeleteFunc(all, func(n meta.NodeID) bool { return n == self })
}

// refollow adds and removes followers to match the view.
func (m *membership) refollow(create func(meta.NodeID) *followerState) (added, removed []*followerState) {
	have := m.followers()
	var all []*followerState
	for _, n := range m.view.others(m.self) {
		if i := slices.IndexFunc(have, func(f *followerState) bool { return f.node == n }); i >= 0 {
			all = append(all, have[i])
			continue
		}
		f := create(n)
		r := m.view.replica(n)
		f.incarnation, f.began, f.down, f.said = r.Incarnation, r.Incarnation, r.Down, r
		all, added = append(all, f), append(added, f)
	}
	for _, f := range have {
		if !slices.Contains(all, f) {
			removed = append(removed, f)
			m.tracker.Forget(f.node)
		}
	}
	if len(added)+len(removed) > 0 {
		m.list.Store(&all)
	}
	return added, removed
}

// next returns the change of the in-sync set that is due, if any. Its joiner counts from now on.
// The joiner must have stored the shares up to a number, if joinable says that this is enough.
func (m *membership) next(now time.Time, shares uint64, joinable bool) (ISRChange, bool) {
	if m.proposal.waiting || m.proposal.open && !m.proposal.unsure || now.Before(m.proposal.again) {
		return ISRChange{}, false
	}
	followers := m.followers()
	waits := m.unverified(now)
	replicas := make([]isr.Replica, 0, 8)
	var near *followerState
	for _, f := range followers {
		r := isr.Replica{
			Node: f.node, Gone: f.down || f.refused, Suspect: f.said.Suspect, Slow: f.drag.slow, Full: f.said.Full, CaughtUp: f.caughtUp,
		}
		if m.logDamaged {
			r.CaughtUp, r.Slow = now, false
		}
		if waits && m.mayHoldMore(f.said) {
			r = isr.Replica{Node: f.node, CaughtUp: now}
		}
		member, keeps := slices.Contains(m.view.ISR, f.node), m.keepsUp(f, now)
		if rested := member || f.drag.rested(now, keeps, m.lag); joinable && keeps && rested && !waits {
			r.Ready = f.holds.Shares >= shares && f.holds.End >= max(m.tracker.Committed(), m.start)
			if !r.Ready && !member {
				near = f
			}
		}
		replicas = append(replicas, r)
	}
	next, due := isr.Next(now, m.lag, m.view.MinISR, m.view.ISR, replicas)
	if !due {
		if !m.proposal.unsure {
			m.await(now, near)
			return ISRChange{}, false
		}
		// The outcome of the last proposal is unknown. A change to the current set makes the
		// metadata pass its version.
		next = isr.Change{ISR: m.view.ISR}
	}
	c := ISRChange{Epoch: m.view.Epoch, Version: m.view.Version, ISR: next.ISR, Joiner: next.Joiner}
	for _, f := range followers {
		if f.node == next.Joiner {
			c.Incarnation = f.began
		}
	}
	m.tracker.Propose(c.ISR)
	m.awaited.follower = nil
	m.proposal = proposal{change: c, open: true, waiting: true, unsure: m.proposal.unsure}
	return c, true
}

// unverified reports whether the term must wait: this log was opened from disk, and has not been
// compared with another in-sync replica. Until then nothing is appended, and no member is removed
// without a comparison, because it may be the only one to have what the disk has lost.
func (m *membership) unverified(now time.Time) bool {
	if m.view.MinISR <= 1 && !now.Before(m.alone) || !slices.ContainsFunc(m.view.Replicas, m.mayHoldMore) {
		m.alone = time.Time{} // permanently: later joiners were compared
	}
	return !m.alone.IsZero()
}

// mayHoldMore reports whether another replica is in sync and may hold records that this log has
// lost: it is not suspect, or reported as holding more.
func (m *membership) mayHoldMore(r ReplicaView) bool {
	if r.Node == m.self || !slices.Contains(m.view.ISR, r.Node) {
		return false
	}
	return !r.Suspect || !r.Broken && m.exceeded(r.LastEpoch, r.End)
}

// exceeded reports whether a log with the given last epoch and end holds more than this one did
// when the term began.
func (m *membership) exceeded(epoch seq.Epoch, end seq.Offset) bool {
	return epoch > m.before || epoch == m.before && end > m.start
}

// keepsUp reports whether a follower has recently held everything, in a session with the process of
// its node that the metadata knows.
func (m *membership) keepsUp(f *followerState, now time.Time) bool {
	return f.connected && !f.down && f.began == f.incarnation && !f.holds.At.IsZero() && now.Sub(f.caughtUp) <= isr.Allowed(m.lag, f.said.Full)/joinMargin
}

// await begins to count a follower that is close enough to join, if there is one.
func (m *membership) await(now time.Time, f *followerState) {
	if f != nil && m.awaited.follower == nil && !now.Before(m.awaited.again) {
		m.awaited = awaited{follower: f, until: now.Add(awaitFor)}
		m.tracker.Propose([]meta.NodeID{f.node})
	}
}

// tire stops counting a follower that was awaited without success, and reports whether it did.
func (m *membership) tire(now time.Time) bool {
	f := m.awaited.follower
	if f == nil || m.keepsUp(f, now) && now.Before(m.awaited.until) {
		return false
	}
	m.awaited = awaited{again: now.Add(awaitAgain)}
	m.tracker.Withdraw()
	return true
}

// answered records the outcome of a requested change. See Term.ISRProposed.
func (m *membership) answered(now time.Time, c ISRChange, err error) {
	p := &m.proposal
	if !p.waiting || c.Version != p.change.Version {
		return
	}
	p.waiting = false
	p.again = now.Add(proposeAgain)
	switch {
	case err == nil, errors.Is(err, failure.StaleVersion), errors.Is(err, failure.StaleEpoch):
		p.unsure = false
	case fate.Of(err) != fate.Refused:
		p.unsure = true
	case !p.unsure:
		m.proposal = proposal{again: p.again}
		m.tracker.Withdraw()
	}
}

// stored returns the number, at most last, up to which every counting replica has stored the
// shares.
func (m *membership) stored(last uint64) uint64 {
	for _, f := range m.followers() {
		if m.tracker.Counts(f.node) {
			last = min(last, f.holds.Shares)
		}
	}
	return last
}

// everywhere reports whether every counting replica holds a log up to its end and all shares, and
// knows that it is committed.
func (m *membership) everywhere(end seq.Offset, shares uint64) bool {
	for _, f := range m.followers() {
		if m.tracker.Counts(f.node) && !f.has(end, shares) {
			return false
		}
	}
	return true
}

// settled reports whether every replica is in sync, holds a log up to its end and knows that it is
// committed, and no change is requested.
func (m *membership) settled(end seq.Offset) bool {
	if m.proposal.open || len(m.view.ISR) != len(m.view.Replicas) {
		return false
	}
	for _, f := range m.followers() {
		if !f.connected || f.down || !f.has(end, 0) {
			return false
		}
	}
	return true
}

// timeAppend starts timing the members for an appended batch.
func (m *membership) timeAppend(now time.Time, end seq.Offset) {
	for _, f := range m.followers() {
		if slices.Contains(m.view.ISR, f.node) {
			f.drag.appended(now, end)
		}
	}
}

// timeAcks records what each member has, compared with what all others have.
func (m *membership) timeAcks(now time.Time) {
	for _, f := range m.followers() {
		if f.drag.mark == 0 {
			continue
		}
		own, others, member := seq.Offset(0), seq.Offset(math.MaxUint64), false
		for _, id := range m.view.ISR {
			end, _ := m.tracker.Acked(id)
			if id == f.node {
				own, member = end, true
				continue
			}
			others = min(others, end)
		}
		if member {
			f.drag.acked(now, own, others, f.holds.Trip)
		}
	}
}

// activate ends the term's idleness, and reports whether it was idle. In that time every replica held
// everything: none has lagged, however long ago the last Tick was.
func (m *membership) activate(now time.Time) bool {
	if !m.idle {
		return false
	}
	m.idle = false
	for _, f := range m.followers() {
		f.heldAll(now)
	}
	return true
}

// confirmed returns when every counting replica was last known to recognise the term.
func (m *membership) confirmed(now time.Time) time.Time {
	for _, f := range m.followers() {
		if m.tracker.Counts(f.node) && f.holds.At.Before(now) {
			now = f.holds.At
		}
	}
	return now
}
