package coord

import (
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord/replication"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
)

const (
	// QuietQuorum is the age of the node's contact to the metadata's quorum from which on a term
	// asks its followers whether they still recognise it.
	QuietQuorum = 650 * time.Millisecond
	// askAgain is the age of their answer from which on it asks again.
	askAgain = 250 * time.Millisecond
)

// Update applies a newer version of the metadata in the same epoch, or the same version with a
// changed state of its nodes. Older ones are ignored. It must not run concurrently with Lead and
// Follow.
func (t *Term) Update(v View) {
	t.mu.Lock()
	if t.ended || v.Epoch != t.Epoch() || v.Version < t.members.view.Version {
		t.mu.Unlock()
		return
	}
	activated := t.members.activate(t.o.Now())
	renewed := t.members.apply(v)
	t.members.unverified(t.o.Now()) // in the new view there may be no other replica to compare with
	var added, removed []*followerState
	if t.o.Peers != nil {
		added, removed = t.members.refollow(func(n meta.NodeID) *followerState { return newFollower(t, n, v) })
		for _, f := range removed {
			f.setStalled(false, t.o.Stalled)
			f.drag.slow = false
			f.setSlow(t.o.Now(), 0, t.o.Slow)
		}
	}
	t.releaseLocked()
	t.appender.startLocked(nil)
	t.mu.Unlock()

	t.o.tellActivated(t, activated)
	t.syncer.SetPolicy(v.Sync)
	for _, f := range removed {
		f.stop()
	}
	for _, f := range added {
		w := watch{t, f}
		openLink(t.o.Peers, f.node, f.link, LinkEvents{Up: w.up, Down: w.down})
	}
	for _, f := range t.members.followers() {
		f.rep.SetPace(t.o.paceOf(v, f.node))
	}
	for _, f := range renewed {
		watch{t, f}.renew()
	}
	t.reconsider(t.o.Now())
}

// paceOf returns how a follower is served. A replica that is not in sync has one chunk in flight:
// it alternates with live traffic on the node and on the disks of both sides, in every partition,
// and never fills the queue of the connection. It still gets a chunk for each round trip and sync,
// as fast as CatchUp allows.
func (o *termOptions) paceOf(v View, node meta.NodeID) replication.Pace {
	p := replication.Pace{Sync: v.Sync.Always()}
	if !slices.Contains(v.ISR, node) {
		p.Window, p.CatchUp = o.Sizes.Chunk, true
	}
	return p
}

// reconsider requests the change of the in-sync set that is due, if any.
func (t *Term) reconsider(now time.Time) {
	if t.o.ProposeISR == nil {
		return
	}
	t.mu.Lock()
	var change ISRChange
	due := false
	if !t.ended {
		if t.members.tire(now) {
			t.releaseLocked()
		}
		last, snapshot := t.shares.Last()
		change, due = t.members.next(now, t.sharing.done(last), snapshot)
	}
	t.mu.Unlock()
	if due {
		t.o.ProposeISR(t, change)
	}
}

// Tick does periodic work, about every hundred milliseconds while the partition has other replicas,
// unless the term is Idle and contact is fresh: it decides who lags, tells rested followers the
// committed end, and completes entries that have waited too long; entries not even written by then
// are refused and never will be. contact is when this node was last in touch with the metadata's
// quorum: from QuietQuorum on, followers are asked whether they still recognise the term, and it is
// not Idle.
func (t *Term) Tick(now, contact time.Time) {
	followers := t.members.followers()
	t.mu.Lock()
	if t.ended {
		t.mu.Unlock()
		return
	}
	t.members.activate(now)
	end := t.o.Log.End()
	last, _ := t.shares.Last()
	settled := t.forming == nil && len(t.backlog.queue) == 0 && len(t.sharing) == 0 && t.members.settled(end)
	for _, f := range followers {
		f.observe(now, end)
		f.setStalled(f.stalls(now, end, last), t.o.Stalled)
		if slices.Contains(t.members.view.ISR, f.node) {
			f.drag.judge(now, t.members.lag)
		}
		f.setSlow(now, t.members.lag, t.o.Slow)
	}
	quiet := now.Sub(contact) > QuietQuorum
	ask := quiet && now.Sub(t.members.confirmed(now)) > askAgain
	t.members.idle = settled && !quiet
	t.room.Broadcast() // other terms may have returned bytes to the budget
	late := t.backlog.expire(now, t.o.PublishTimeout)
	if g := t.forming; g != nil && now.Sub(g.since) >= t.o.PublishTimeout { // the log, or the round that it waits for, hangs
		t.forming = nil
		g.builder, g.err = commitlog.Builder{}, failure.TooFewISR
		t.backlog.add(g)
		late = true
	}
	if late {
		t.room.Broadcast() // entries that wait for room are refused
		t.releaseLocked()
	}
	t.appender.startLocked(nil)
	t.mu.Unlock()
	tell(followers, ask, tellAfter)
	t.reconsider(now)
}

// Expire is the part of Tick for a term without other replicas: entries that have waited too long are
// completed. It costs next to nothing if none waits.
func Expire(t *Term, now time.Time) {
	t.mu.Lock()
	waits := t.forming != nil || len(t.backlog.queue) > 0
	t.mu.Unlock()
	if waits {
		t.Tick(now, now)
	}
}

// Idle reports that the last Tick found nothing to do, and nothing has happened since that would
// require another: ReplicaOptions.Activated signals the end of that.
func (t *Term) Idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.members.idle
}

// ISRProposed reports the outcome of a requested change. Without an error, or with one that says
// that the metadata has moved on, Update brings the result. After another refusal the change is
// withdrawn. Any other error leaves it open: it counts until the metadata passes the version for
// which it was made.
func (t *Term) ISRProposed(c ISRChange, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.members.answered(t.o.Now(), c, err)
		t.releaseLocked()
	}
}

// Confirmed returns when every in-sync replica was last known to recognise this term: the time of
// the request that it answered. A term without other replicas is recognised now. The zero time
// means that a replica has yet to answer.
func (t *Term) Confirmed() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.members.confirmed(t.o.Now())
}

// Followers returns the statistics of the followers, in the order of assignment.
func (t *Term) Followers() []FollowerStats {
	end, now := t.o.Log.End(), t.o.Now()
	var all []FollowerStats
	for _, f := range t.members.followers() {
		state, p, _ := f.rep.State()
		t.mu.Lock()
		s := f.stats(now, end)
		t.mu.Unlock()
		s.State, s.LagBytes = state.String(), p.Bytes
		all = append(all, s)
	}
	return all
}

// watch receives the events of a follower's link and replicator for its term.
type watch struct {
	t *Term
	f *followerState
}

func (w watch) up() {
	w.t.mu.Lock()
	w.f.connected, w.f.refused = true, false
	activated := w.t.members.activate(w.t.o.Now())
	w.t.mu.Unlock()
	w.t.o.tellActivated(w.t, activated)
	w.f.rep.Connected()
}

// renew begins a session again, if there is one: the follower's node has a new process, and the
// answers of the previous one no longer count.
func (w watch) renew() {
	w.t.mu.Lock()
	connected := w.f.connected
	w.t.mu.Unlock()
	if connected {
		w.f.rep.Connected()
	}
}

func (w watch) down(refused bool) {
	w.t.mu.Lock()
	activated := w.t.members.activate(w.t.o.Now())
	w.f.connected, w.f.refused = false, refused
	w.t.mu.Unlock()
	w.t.o.tellActivated(w.t, activated)
	w.f.rep.Disconnected()
	w.t.reconsider(w.t.o.Now())
}

// forget records that a session of a follower begins, or that there is none.
func (w watch) forget(session uint64) {
	w.t.mu.Lock()
	activated := false
	if session > w.f.holds.Session {
		activated = w.t.members.activate(w.t.o.Now())
		w.f.holds = replication.Progress{Session: session}
		w.f.began = w.f.incarnation
		w.t.members.tracker.Forget(w.f.node)
	}
	w.t.mu.Unlock()
	w.t.o.tellActivated(w.t, activated)
}

// acked records what a follower has.
func (w watch) acked(p replication.Progress) {
	t := w.t
	t.mu.Lock()
	now := t.o.Now() // under the lock, so that times of one term do not go back
	if t.ended || !w.f.advance(now, p) {
		t.mu.Unlock()
		return
	}
	t.members.tracker.Ack(w.f.node, w.f.holds.End)
	t.members.timeAcks(now)
	t.releaseLocked()
	sealed, member := t.sealed != nil, slices.Contains(t.members.view.ISR, w.f.node)
	if !member {
		w.f.observe(t.o.Now(), t.o.Log.End())
	}
	t.mu.Unlock()
	if sealed {
		tell(t.members.followers(), false, 0)
	}
	if !member {
		t.reconsider(t.o.Now())
	}
}
