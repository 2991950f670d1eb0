package limit

import "time"

const (
	// breathSteps is the number of steps after which a Breath reads the clock.
	breathSteps = 1 << 10
	// breathAfter is how long a loop uses a processor, and breathFor how long it then sleeps: long
	// enough for the scheduler to run other goroutines.
	breathAfter = 500 * time.Microsecond
	breathFor   = 5 * time.Microsecond
)

// Breath yields the processor periodically in a loop of many short steps. The scheduler polls the
// network when a processor is idle, and otherwise every 10 ms. Yielding does not help a goroutine
// that waits for a packet, because the yielding goroutine may continue at once; therefore the loop
// sleeps for a moment. A Breath is for one goroutine; the zero value is ready.
type Breath struct {
	steps int
	since time.Time // when the loop last slept, or when the Breath first read the clock
}

// Step must be called in every step of the loop.
func (b *Breath) Step() {
	if b.steps++; b.steps >= breathSteps {
		b.steps = 0
		b.sleep()
	}
}

// sleep sleeps if the loop has used the processor for long enough.
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
