package limit

import "time"

const (
	// breathSteps is how many steps of a loop are made before its Breath looks at the clock.
	breathSteps = 1 << 10
	// breathAfter is how long a loop keeps a processor, and breathFor is how long it then
	// leaves it: long enough for the scheduler to look around.
	breathAfter = 500 * time.Microsecond
	breathFor   = 5 * time.Microsecond
)

// Breath lets others have the processor now and then, in a loop of many short steps. The
// scheduler asks the network for what has arrived where a processor has nothing to do,
// and otherwise every 10 ms: to yield is not enough for who waits for a packet, as who
// yields may continue at once. The loop sleeps for a moment. A Breath is for one goroutine; the
// zero value is ready.
type Breath struct {
	steps int
	since time.Time // when the loop last slept, or its Breath first looked
}

// Step is called once in every step of the loop.
func (b *Breath) Step() {
	if b.steps++; b.steps >= breathSteps {
		b.steps = 0
		b.sleep()
	}
}

// sleep sleeps if the loop has had the processor for long enough.
func (b *Breath) sleep() {
	now := time.Now()
	if b.since.IsZero() {
		b.since = now
	}
	if now.Sub(b.since) >= breathAfter {
		time.Sleep(breathFor)
		b.since = time.Now()
	}
}
