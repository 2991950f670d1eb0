package sim

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/brokerd/brokerd/internal/simtest"
)

var (
	seeds     = simtest.NewSeeds(seedCount)
	damageAll = flag.Bool("sim.damage", false, "damage all copies in every run, each in another part")
	lateFile  = flag.String("sim.late", "", "write to this file what missed a time limit once, and not in its replays")
)

const (
	// lateReplays is how often a seed is run again that missed a time limit and did nothing else wrong.
	lateReplays = 8
	// maxLate is how many seeds of a run may have missed a time limit once, and never in their replays.
	maxLate = 2
)

// TestBrokersLoseNothing runs clusters through faults, repeatedly. What is lost, repeated or out of order
// fails at once. A missed time limit, which depends on how goroutines are scheduled, fails if it is missed
// again in a replay of the seed, or in too many seeds. Those that did not come again are in -sim.late.
func TestBrokersLoseNothing(t *testing.T) {
	var mu sync.Mutex
	var all []string
	seeds.Run(t, func(t *testing.T, seed uint64) {
		report := simulate(t, seed, true)
		if report == "" {
			return
		}
		for range lateReplays {
			simulate(t, seed, false)
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, fmt.Sprintf("seed %d missed a time limit, and in %d replays did not again:\n%s\n", seed, lateReplays, report))
		if t.Log(all[len(all)-1]); len(all) > maxLate {
			t.Errorf("%d seeds missed a time limit", len(all))
		}
		if *lateFile != "" {
			if err := os.WriteFile(*lateFile, []byte(strings.Join(all, "\n")), 0o644); err != nil {
				t.Error(err)
			}
		}
	})
}

// simulate runs a cluster. With excused it returns what happened in a run that missed a time limit, instead
// of failing the test.
func simulate(t *testing.T, seed uint64, excused bool) (late string) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed)
		w.run(seed)
		if excused && w.isLate() {
			late = fmt.Sprintf("%s\n\n%s", simtest.Report(w.wrongs), w.first)
			return
		}
		w.report()
	})
	return late
}
