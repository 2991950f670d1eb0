package limit

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Limits for listing and publishing messages: a turn is needed for more than FewMessages, and is
// passed on after each TurnMessages listed; it ends after PublishTurn, because a publish is not
// interrupted but may wait for memory.
const (
	FewMessages  = 512
	TurnMessages = 1 << 10
	PublishTurn  = 50 * time.Millisecond
)

// burstTurn limits the turn of a Burst, which may also wait: for room in a log, or for a topic to
// be created.
const burstTurn = 2 * time.Millisecond

// Turns limits how many goroutines perform long computations at a time, so that requests with
// little work find a free processor. Goroutines with long work wait in order, and pass their turn
// on after a while. No turn is held while waiting. Its methods are safe for concurrent use; a nil
// Turns has no limit.
type Turns struct {
	places  chan struct{}
	waiting atomic.Int32
	bursts  atomic.Int32 // bursts in progress
	rested  atomic.Int64 // when a goroutine with a turn last slept, in ns since 1970
}

// NewTurns returns Turns for a number of goroutines at a time.
func NewTurns(places int) *Turns { return &Turns{places: make(chan struct{}, places)} }

// Acquire waits for a turn.
func (t *Turns) Acquire() {
	if t == nil {
		return
	}
	select {
	case t.places <- struct{}{}:
		return
	default:
	}
	t.waiting.Add(1)
	t.places <- struct{}{}
	t.waiting.Add(-1)
}

// Waiting returns the number of goroutines that wait for a turn.
func (t *Turns) Waiting() int {
	if t == nil {
		return 0
	}
	return int(t.waiting.Load())
}

// Give ends a turn.
func (t *Turns) Give() {
	if t != nil {
		<-t.places
	}
}

// Pass lets other goroutines have their turn before this one continues.
func (t *Turns) Pass() {
	if t == nil {
		return
	}
	t.rest() // before another goroutine has the turn
	t.Give()
	runtime.Gosched()
	t.Acquire()
}

// rest sleeps for a moment within a turn, unless another goroutine did so less than half a
// millisecond ago; see Breath.
func (t *Turns) rest() {
	if now := time.Now().UnixNano(); now-t.rested.Load() >= int64(breathAfter) {
		time.Sleep(breathFor)
		t.rested.Store(now)
	}
}

// Do calls f, which must not wait, within a turn.
func (t *Turns) Do(f func()) {
	t.Acquire()
	defer t.Give()
	f()
}

// Listed passes the turn on if it is due after n listed messages.
func (t *Turns) Listed(n int) {
	if n%TurnMessages == 0 {
		t.Pass()
	}
}

// For returns the Turns for a number of messages: nil if there are few.
func (t *Turns) For(messages int) *Turns {
	if messages <= FewMessages {
		return nil
	}
	return t
}

// AcquireFor waits for a turn for work that may also wait. The turn ends with the returned
// function, or after most.
func (t *Turns) AcquireFor(most time.Duration) (end func()) {
	if t == nil {
		return func() {}
	}
	t.Acquire()
	var once sync.Once
	timer := time.AfterFunc(most, func() { once.Do(t.Give) })
	return func() {
		timer.Stop()
		once.Do(t.Give)
	}
}

// AcquirePaced is AcquireFor for work that could otherwise keep the processors busy all the time. While other goroutines
// wait, a turn is followed by a rest of the same length, at most the time of a turn.
func (t *Turns) AcquirePaced(most time.Duration) (end func()) {
	if t == nil {
		return func() {}
	}
	t.Acquire()
	give := sync.OnceFunc(t.Give)
	began := time.Now()
	late := time.AfterFunc(most, give)
	return func() {
		took := min(time.Since(began), most)
		if late.Stop() && t.Waiting() > 0 {
			time.AfterFunc(took, give)
			return
		}
		give()
	}
}

// Burst starts short work that arrives in large numbers: the commands that a connection has read
// at once. A few bursts run without a turn. If there are more than twice as many as turns, each
// waits for a turn, which ends with the burst or after 2 ms.
func (t *Turns) Burst() (end func()) {
	if t == nil {
		return func() {}
	}
	if int(t.bursts.Add(1)) <= 2*cap(t.places) {
		return t.endBurst
	}
	give := t.AcquireFor(burstTurn)
	t.rest()
	return func() {
		give()
		t.endBurst()
	}
}

func (t *Turns) endBurst() { t.bursts.Add(-1) }
