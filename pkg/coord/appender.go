package coord

import (
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/brokerd/brokerd/internal/stack"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// writeAgain is the pause before a write is repeated that took too long and then had no effect.
const writeAgain = 100 * time.Millisecond

// inliner is an Entry whose caller may act as the appender for one group: a caller that only
// waits for the outcome saves two thread switches.
type inliner interface {
	// Inline returns nil, or a function that receives appendHere. appendHere must be called
	// once, soon after Append has returned, in any case. Both are called with a lock held.
	Inline() func(appendHere func())
}

func inlineOf(e commitlog.Entry) func(appendHere func()) {
	if i, ok := e.(inliner); ok {
		return i.Inline()
	}
	return nil
}

// appender appends, group by group, the entries that wait in a term. It runs while there are any:
// in the rounds in which the file system syncs many logs (see vfs.Member), or, if this log is
// synced alone, on its own goroutine or on a caller's.
type appender struct {
	t       *Term
	here    func() // appendHere as a value
	running sync.WaitGroup
	runs    bool // guarded by the term's mutex

	// Of the current round.
	group   *group
	syncing commitlog.Syncing
}

func (a *appender) begin(t *Term) { a.t, a.here = t, a.appendHere }

// startLocked starts the appender, unless it runs already or the term must wait. The term's lock is
// held, so that Stop waits for the appender. e is the entry that arrived; nil: none.
func (a *appender) startLocked(e commitlog.Entry) {
	t := a.t
	if t.forming == nil || a.runs || t.ended || t.members.unverified(t.o.Now()) {
		return
	}
	a.runs = true
	a.running.Add(1)
	if inline := inlineOf(e); inline != nil {
		inline(a.here)
		return
	}
	a.goOn()
}

// goOn continues the appender on another goroutine. The caller has marked it as running.
func (a *appender) goOn() {
	if !a.t.w.Join(a) {
		go a.appendAll()
	}
}

// appendAll appends while entries wait and the log takes no part in rounds.
func (a *appender) appendAll() {
	stack.Grow()
	for {
		// Yield to goroutines on this processor that are about to publish: otherwise they would
		// wait for this whole batch, and batches would be small.
		runtime.Gosched()
		g := a.next(false)
		if g == nil {
			a.running.Done()
			return
		}
		a.append(g)
		if a.t.w.Join(a) {
			return
		}
	}
}

// complete finishes a group, for which a round would have had to wait, and continues.
func (a *appender) complete(rest func(*group), g *group) {
	stack.Grow()
	rest(g)
	a.again()
}

// again continues with entries that arrived meanwhile, if any.
func (a *appender) again() {
	a.next(true)
	a.running.Done()
}

// Write implements vfs.Member.
func (a *appender) Write(with *vfs.Gathering) vfs.Sync {
	t := a.t
	g := a.next(false)
	if g == nil {
		a.running.Done()
		return nil
	}
	if !t.w.Quick(g.size) {
		go a.complete(a.append, g)
		return nil
	}
	for _, f := range t.members.followers() {
		f.link.gather(with)
	}
	due, err := t.write(g)
	switch begun := false; {
	case errors.Is(err, errAgain):
		go a.complete(a.append, g)
		return nil
	case err != nil:
		t.fail(err)
	case due:
		if a.syncing, begun = t.syncer.Begin(); begun {
			a.group = g
			return a.syncing.Sync()
		}
		go a.complete(a.sync, g)
		return nil
	case g.written:
		a.acknowledge(g)
	}
	a.again()
	return nil
}

// Synced implements vfs.Member.
func (a *appender) Synced(_ *vfs.Gathering, err error) {
	g, s := a.group, a.syncing
	a.group, a.syncing = nil, commitlog.Syncing{}
	if err := s.End(err); err != nil {
		a.t.fail(err)
	} else {
		a.acknowledge(g)
	}
	a.again()
}

// appendHere appends one group on a caller's goroutine.
func (a *appender) appendHere() {
	defer a.running.Done()
	if g := a.next(false); g != nil {
		a.append(g)
		a.next(true)
	}
}

// next takes the next group to be appended. It returns nil if there is none, and the appender has
// ended, or if handOver is set and another goroutine continues.
func (a *appender) next(handOver bool) *group {
	t := a.t
	t.mu.Lock()
	g := t.forming
	switch {
	case g == nil:
		a.runs = false
		t.checkSealLocked()
		sealed := t.sealed != nil
		t.mu.Unlock()
		if sealed { // a follower that acknowledged before this node did has not been counted
			tell(t.members.followers(), false, 0)
		}
		return nil
	case handOver:
		a.running.Add(1)
		a.goOn()
		t.mu.Unlock()
		return nil
	}
	t.forming = nil
	g.size, g.since, g.first = g.builder.Size(), t.o.Now(), t.o.Log.End()
	t.backlog.add(g)
	t.room.Broadcast()
	t.mu.Unlock()
	return g
}

// append writes a group, sends it to the followers, and syncs it as the policy requires. If the log
// has failed, the term ends.
func (a *appender) append(g *group) {
	due, err := a.t.write(g)
	for errors.Is(err, errAgain) {
		time.Sleep(writeAgain)
		if due = false; a.t.isOver() {
			err = a.t.refused(g, failure.NotLeading)
		} else {
			due, err = a.t.write(g)
		}
	}
	switch {
	case err != nil:
		a.t.fail(err)
	case due:
		a.sync(g)
	case g.written:
		a.acknowledge(g)
	}
}

// isOver reports whether the term accepts nothing more.
func (t *Term) isOver() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over != nil
}

// sync syncs a written group, and counts it. If the log has failed, the term ends.
func (a *appender) sync(g *group) {
	if err := a.t.syncer.Sync(); err != nil {
		a.t.fail(err)
		return
	}
	a.acknowledge(g)
}

// acknowledge counts that this node holds a group, as durably as the policy requires.
func (a *appender) acknowledge(g *group) {
	t := a.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.members.tracker.Ack(t.o.Self, g.batch.End())
		t.members.timeAcks(t.o.Now())
	}
	t.releaseLocked()
}
