package coord

import (
	"runtime"
	"sync"

	"github.com/brokerd/brokerd/internal/stack"
	"github.com/brokerd/brokerd/pkg/commitlog"
)

// Inliner is an Entry whose caller may be the appender for one group: one who has nothing to
// do but to wait for the outcome spares two changes of threads.
type Inliner interface {
	// Inline returns nil, or what gives the caller appendHere. That must be called once, soon
	// after Append has returned and whatever happens meanwhile. Both are called with a lock
	// held.
	Inline() func(appendHere func())
}

func inlineOf(e commitlog.Entry) func(appendHere func()) {
	if i, ok := e.(Inliner); ok {
		return i.Inline()
	}
	return nil
}

// appender appends, group by group, what waits in a term. It runs while something does, on a
// goroutine of its own or on a caller's.
type appender struct {
	t       *Term
	here    func() // appendHere, bound
	running sync.WaitGroup
	runs    bool // guarded by the term's mutex
}

func (a *appender) begin(t *Term) { a.t, a.here = t, a.appendHere }

// startLocked has what waits appended, unless that is under way or the term is to
// wait. The term's lock is held, so that Stop waits for the appender. e is the entry that
// arrived; nil: none.
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
	go a.appendAll()
}

// appendAll appends while entries wait.
func (a *appender) appendAll() {
	defer a.running.Done()
	stack.Grow()
	for {
		// Whoever is about to publish on this processor does so first: otherwise
		// it would wait for this whole batch, and batches would be small.
		runtime.Gosched()
		g := a.next(false)
		if g == nil {
			return
		}
		a.append(g)
	}
}

// appendHere appends one group on the goroutine of a caller.
func (a *appender) appendHere() {
	defer a.running.Done()
	if g := a.next(false); g != nil {
		a.append(g)
		a.next(true)
	}
}

// next takes the group that waits to be appended. nil: there is none, and the appender has
// ended; or another goroutine goes on, if the caller is to hand over.
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
		if sealed { // who acknowledged before this node did has not been told
			tell(t.members.followers(), false)
		}
		return nil
	case handOver:
		a.running.Add(1)
		go a.appendAll()
		t.mu.Unlock()
		return nil
	}
	t.forming = nil
	g.size, g.since = g.builder.Size(), t.o.Now()
	t.backlog.add(g)
	t.room.Broadcast()
	t.mu.Unlock()
	return g
}

// append writes a group. Where the log has failed the term ends.
func (a *appender) append(g *group) {
	if err := a.t.appendGroup(g); err != nil {
		a.t.fail(err)
	}
}
