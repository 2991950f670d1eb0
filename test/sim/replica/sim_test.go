package replica

import (
	"testing"
	"testing/synctest"

	"github.com/brokerd/brokerd/internal/simtest"
)

var seeds = simtest.NewSeeds(seedCount)

// TestReplicasLoseNothing runs a partition's replicas through faults, repeatedly.
func TestReplicasLoseNothing(t *testing.T) {
	seeds.Run(t, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed, nil)
			w.run(seed)
			if w.report(); len(w.wrongs) > 0 {
				seeds.Note(seed, w.wrongs[0])
			}
			acked, unknown, failed, _ := w.history.Counts()
			t.Logf("%d acknowledged, %d unknown, %d failed, %d terms, %v", acked, unknown, failed, len(w.leads), w.plan)
		})
	})
}
