package limit

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of who lists and publishes messages: a turn is taken for more than FewMessages,
// and passed on behind each TurnMessages that are listed; it ends after PublishTurn, as a
// publish is not to be interrupted, but may wait for room.
const (
	FewMessages  = 512
	TurnMessages = 1 << 10
	PublishTurn  = 50 * time.Millisecond
)

// burstTurn bounds the turn of a Burst, in which something may be waited for as well:
// room in a log, or a topic that is created.
const burstTurn = 2 * time.Millisecond

// Turns bounds how many goroutines do at a time what takes a processor for long, for
// the sake of who has little to do: it finds a processor free, and does not wait
// behind all who have much. Who has much to do waits in order, and passes its turn on
// after a while. No turn is held while something is waited for. Its methods may be
// called by many goroutines; a nil one has no limit.
type Turns struct {
	places  chan struct{}
	waiting atomic.Int32
	bursts  atomic.Int32 // that are in progress
	rested  atomic.Int64 // when one that had a turn left its processor, in ns since 1970
}

// NewTurns returns turns for so many at a time.
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

// Waiting returns how many wait for a turn.
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

// Pass lets others have their turn before this one continues.
func (t *Turns) Pass() {
	if t == nil {
		return
	}
	t.rest() // before another has the turn
	t.Give()
	runtime.Gosched()
	t.Acquire()
}

// rest leaves the processor for a moment in a turn, unless one that had it did so less
// than half a millisecond ago: see Breath.
func (t *Turns) rest() {
	if now := time.Now().UnixNano(); now-t.rested.Load() >= int64(breathAfter) {
		time.Sleep(breathFor)
		t.rested.Store(now)
	}
}

// Do does in a turn what waits for nothing.
func (t *Turns) Do(f func()) {
	t.Acquire()
	defer t.Give()
	f()
}

// Listed passes the turn on if that is due once so many messages are listed.
func (t *Turns) Listed(n int) {
	if n%TurnMessages == 0 {
		t.Pass()
	}
}

// For returns the turns for so many messages: for few there are none.
func (t *Turns) For(messages int) *Turns {
	if messages <= FewMessages {
		return nil
	}
	return t
}

// Lend waits for a turn for what may also wait for something. The turn ends with the
// function that is returned, or when so long has gone by.
func (t *Turns) Lend(most time.Duration) (end func()) {
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

// Burst begins what is short by itself but comes in numbers: the commands that a
// connection has read at once. Few bursts are not in anybody's way. Where there are more
// than twice as many as turns at a time, each waits for a turn, which ends with the burst
// or after 2 ms.
func (t *Turns) Burst() (end func()) {
	if t == nil {
		return func() {}
	}
	if int(t.bursts.Add(1)) <= 2*cap(t.places) {
		return t.endBurst
	}
	give := t.Lend(burstTurn)
	t.rest()
	return func() {
		give()
		t.endBurst()
	}
}

func (t *Turns) endBurst() { t.bursts.Add(-1) }
