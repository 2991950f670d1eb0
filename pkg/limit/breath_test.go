package limit

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestLongLoopYieldsProcessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const step = time.Microsecond
		var b Breath
		began := time.Now()
		for range 10 * breathSteps {
			time.Sleep(step) // the duration of a step
			b.Step()
		}
		// A round of steps takes longer than breathAfter. The clock is first read after one round.
		if rests := (time.Since(began) - 10*breathSteps*step) / breathFor; rests != 9 {
			t.Errorf("in ten rounds it left its processor %d times", rests)
		}
		b, began = Breath{}, time.Now()
		for range 100 * breathSteps {
			b.Step()
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("a loop of which a round takes no time left its processor for %v", took)
		}
	})
}

func TestPassingATurnYieldsProcessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(1)
		turns.Acquire()
		turns.Pass() // the first has not paused
		began := time.Now()
		for range 100 {
			time.Sleep(breathAfter / 4)
			turns.Pass()
		}
		if rests := (time.Since(began) - 25*breathAfter) / breathFor; rests < 20 || rests > 25 {
			t.Errorf("in 100 quarters of its time it left its processor %d times", rests)
		}
		turns.Give()
	})
}
