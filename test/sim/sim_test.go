package sim

import (
	"testing"
	"testing/synctest"

	"github.com/brokerd/brokerd/internal/simtest"
)

var seeds = simtest.NewSeeds(seedCount)

// TestBrokersLoseNothing runs clusters through faults, repeatedly.
func TestBrokersLoseNothing(t *testing.T) {
	seeds.Run(t, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed)
			w.run(seed)
			w.report()
		})
	})
}
