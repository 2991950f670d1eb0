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
	livesAll  = flag.Bool("sim.lives", false, "give messages a time to live, and set one clock at a time, in every run")
	trashAll  = flag.Bool("sim.trash", false, "delete and restore a topic and a channel in every run")
	lateFile  = flag.String("sim.late", "", "write to this file what missed a time limit once, and not in its replays")
)

const (
	// lateReplays is how often a seed is run again if its only failure was a missed time limit.
	lateReplays = 8
	// maxLate is how many seeds of a run may miss a time limit once and in none of their replays.
	maxLate = 2
)

// TestBrokersLoseNothing runs clusters through faults, repeatedly. A message that is lost,
// delivered twice without a reason or out of order fails the test at once. A missed time limit,
// which depends on how goroutines are scheduled, fails the test if a replay of the seed misses it
// again, or if too many seeds miss one. -sim.late lists those that no replay missed again.
func TestBrokersLoseNothing(t *testing.T) {
	var mu sync.Mutex
	var all []string
	seeds.Run(t, func(t *testing.T, seed uint64) {
		report := simulate(t, seed, true)
		if report == "" {
			return
		}
		seeds.Note(seed, "missed a time limit: "+report)
		for i := 0; i < lateReplays && !t.Failed(); i++ {
			simulate(t, seed, false)
		}
		if t.Failed() {
			return
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

// simulate runs a cluster. With excused it does not fail the test if the run missed a time limit,
// but returns what happened.
func simulate(t *testing.T, seed uint64, excused bool) (late string) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed)
		w.run(seed)
		if excused && w.isLate() {
			late = fmt.Sprintf("%s\n\n%s", simtest.Report(w.wrongs), w.first)
			return
		}
		if w.report(); w.isWrong() {
			seeds.Note(seed, w.wrongs[0])
		}
	})
	return late
}
