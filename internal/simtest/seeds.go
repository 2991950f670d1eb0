package simtest

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Seeds selects the runs of a simulation. A test package makes one as a
// package-level variable, before its flags are read.
type Seeds struct {
	one   *uint64
	count *int
	first *uint64

	mu    sync.Mutex // guards what follows
	notes []note     // at most one of a seed
}

// note is what the end of the output repeats of a seed.
type note struct {
	seed uint64
	text string
}

// NewSeeds registers the flags -sim.seed (this one only), -sim.seeds (how many;
// count unless given) and -sim.first (where they begin).
func NewSeeds(count int) *Seeds {
	return &Seeds{
		one:   flag.Uint64("sim.seed", 0, "run this seed only"),
		count: flag.Int("sim.seeds", count, "run that many seeds, after those that are kept"),
		first: flag.Uint64("sim.first", 1, "the first of the seeds"),
	}
}

// keptFile holds the seeds that once failed, one per line with the fault.
const keptFile = "seeds.txt"

// Run runs f for each seed as a separate, parallel test: first the seeds in
// testdata/seeds.txt, then new ones. A seed that fails prints how to run it
// again. The output of a failed test ends with one line for each seed with a note
// and for each that failed.
func (s *Seeds) Run(t *testing.T, f func(t *testing.T, seed uint64)) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.summary(t.Name()))
		}
	})
	if *s.one != 0 {
		s.guard(t, *s.one, f)
		return
	}
	done := map[uint64]bool{}
	for _, seed := range kept(t) {
		done[seed] = true
		s.run(t, "kept", seed, f)
	}
	for i := range uint64(*s.count) { //nolint:gosec // how many is not negative
		if seed := *s.first + i; !done[seed] {
			s.run(t, "seed", seed, f)
		}
	}
}

// Note has the end of a failed test's output repeat the first line of a text about a
// seed, because the middle of a long output may be cut out. A later note of a seed
// replaces an earlier one.
func (s *Seeds) Note(seed uint64, text string) {
	line, _, _ := strings.Cut(text, "\n")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = append(slices.DeleteFunc(s.notes, func(n note) bool { return n.seed == seed }), note{seed, line})
}

// noteFailed notes that a seed failed, if nothing else is noted of it.
func (s *Seeds) noteFailed(seed uint64) {
	s.mu.Lock()
	known := slices.ContainsFunc(s.notes, func(n note) bool { return n.seed == seed })
	s.mu.Unlock()
	if !known {
		s.Note(seed, "failed: its own output tells why")
	}
}

// summary lists the last notes of the run of a test.
func (s *Seeds) summary(test string) string {
	const most = 20
	s.mu.Lock()
	defer s.mu.Unlock()
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %d seeds of note:", test, len(s.notes))
	for _, n := range s.notes[max(0, len(s.notes)-most):] {
		fmt.Fprintf(&text, "\nseed %d: %s", n.seed, n.text)
	}
	return text.String()
}

func (s *Seeds) run(t *testing.T, kind string, seed uint64, f func(t *testing.T, seed uint64)) {
	t.Run(fmt.Sprint(kind, seed), func(t *testing.T) {
		t.Parallel()
		t.Cleanup(func() {
			if t.Failed() {
				s.noteFailed(seed)
				t.Logf("again: go test -run '^%s$' -sim.seed %d (where it does not fail each time: -count 20)",
					strings.SplitN(t.Name(), "/", 2)[0], seed)
			}
		})
		s.guard(t, seed, f)
	})
}

// hangsAfter is the longest real time for a run, which takes seconds of processor
// time, and minutes beside ten other programs. In a bubble of testing/synctest, time stands still while any
// goroutine works or waits for a mutex. If one does so forever, the run hangs.
const hangsAfter = 6 * time.Minute

// guard runs f. If f hangs, it ends the program, after the stacks of all goroutines
// and a summary.
func (s *Seeds) guard(t *testing.T, seed uint64, f func(t *testing.T, seed uint64)) {
	timer := time.AfterFunc(hangsAfter, func() {
		stacks := make([]byte, 64<<20)
		s.Note(seed, "hangs: a goroutine spins, or waits for a mutex whose holder waits")
		fmt.Fprintf(os.Stderr, "%s\n%s\n", stacks[:runtime.Stack(stacks, true)], s.summary(t.Name()))
		os.Exit(2)
	})
	defer timer.Stop()
	f(t, seed)
}

// kept returns the seeds in testdata.
func kept(t *testing.T) []uint64 {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", keptFile))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var seeds []uint64
	for lines := bufio.NewScanner(file); lines.Scan(); {
		text, _, _ := strings.Cut(lines.Text(), "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("testdata/%s: %v", keptFile, err)
		}
		seeds = append(seeds, seed)
	}
	return seeds
}
