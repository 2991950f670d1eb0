package host

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/seq"
)

func TestARaceOfEpochs(t *testing.T) {
	now := time.Now()
	var r race
	step := func(d time.Duration, e seq.Epoch, fast bool) {
		t.Helper()
		now = now.Add(d)
		if r = r.after(e, now); r.fast != fast {
			t.Errorf("epoch %d: %+v", e, r)
		}
	}
	step(0, 1000, false) // the first that is seen
	step(RaceWindow/2, 1000+raceEpochs-1, false)
	step(RaceWindow/2, 1000+raceEpochs-1, false)
	step(RaceWindow/2, 1000+2*raceEpochs-1, true)
	step(RaceWindow/2, 1000+2*raceEpochs-1, true)
	step(RaceWindow-1, 1000+2*raceEpochs, true) // until a whole window has passed
	step(1, 1000+2*raceEpochs, false)
	if coord.StallAfter >= 5*time.Second {
		t.Errorf("a stall is said after %v", coord.StallAfter)
	}
}
