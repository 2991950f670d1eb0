// Command cluster causes faults in a cluster of real brokerd processes while clients publish and
// consume, and checks the cluster's guarantees: no acknowledged message is lost, none is invented or
// altered, every redelivery has a cause, and afterwards every replica is automatically in sync again
// with the same contents, and every consumer continues.
//
// It drives the built program from outside: with the NSQ protocol and its own client, with signals,
// and with the HTTP API, which reports leaders and the contents of replicas. If it may (root, Linux,
// the ip command), it puts every node into a network namespace and cuts the links between them. A run
// prints its seed. The seed determines what the clients do, and what is done to which node when, but
// not how the machine schedules the processes.
//
// With -failover it measures how long a publisher waits when a leader fails.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/brokerd/brokerd/test/nodes"
)

// options are the options of a run.
type options struct {
	broker    string
	previous  string
	clocks    string
	scenarios string
	duration  time.Duration
	seed      uint64
	rounds    int
	pause     time.Duration
	nodes     int
	failover  int
	again     bool
	jobs      int
	keep      bool
	verbose   bool
	inside    bool

	ports *nodes.Ports
	out   io.Writer // for the report
}

func (o *options) addFlags(fs *flag.FlagSet) {
	fs.StringVar(&o.broker, "broker", "bin/brokerd", "`PROGRAM` to test, with brokerctl beside it")
	fs.StringVar(&o.previous, "previous", "", "`PROGRAM` of the release before, for mixed-versions, which is skipped without; make previous builds one")
	fs.StringVar(&o.clocks, "clocks", "", "`PROGRAM` to test that is built with the tag fakeclock, for other-clocks, which is skipped without; make clocks builds one")
	fs.StringVar(&o.scenarios, "scenarios", "", "`NAMES` with commas; default: all but the long ones, once; see -list; with -failover: of incidents")
	fs.DurationVar(&o.duration, "for", 0, "soak: run scenarios at random, long ones too, for this long")
	fs.Uint64Var(&o.seed, "seed", 0, "of all that is random; 0: a new one")
	fs.IntVar(&o.rounds, "rounds", 40, "crash: how often to kill the node")
	fs.DurationVar(&o.pause, "pause", 4*time.Second, "longest SIGSTOP and cut")
	fs.IntVar(&o.nodes, "nodes", 3, "how many nodes")
	fs.IntVar(&o.failover, "failover", 0, "measure publish gaps instead, in this many `ROUNDS` each")
	fs.IntVar(&o.jobs, "jobs", 1, "scenarios to play at the same time")
	fs.BoolVar(&o.again, "again", false, "play a scenario that only missed a time limit once more; what is lost or wrong fails at once")
	fs.BoolVar(&o.keep, "keep", false, "keep the data directories and the logs")
	fs.BoolVar(&o.verbose, "v", false, "say what is done")
	fs.BoolVar(&o.inside, "in-namespace", false, "this process has a network namespace of its own (set by the program itself)")
}

func (o *options) validate() error {
	if o.rounds < 1 || o.jobs < 1 || o.failover < 0 || o.pause < time.Second {
		return errors.New("-rounds and -jobs must be at least 1, -failover at least 0, -pause at least 1s")
	}
	if o.nodes < 1 || o.nodes > 9 {
		return errors.New("-nodes must be 1 to 9")
	}
	if o.seed == 0 {
		o.seed = rand.Uint64()
	}
	var err error
	if o.broker, err = filepath.Abs(o.broker); err == nil && o.previous != "" {
		o.previous, err = filepath.Abs(o.previous) // nodes and commands run in other directories
	}
	if err == nil && o.clocks != "" {
		o.clocks, err = filepath.Abs(o.clocks)
	}
	return err
}

func main() {
	o := options{ports: new(nodes.Ports), out: os.Stdout}
	o.addFlags(flag.CommandLine)
	list := flag.Bool("list", false, "list the scenarios")
	flag.Parse()
	if *list {
		for _, s := range scenarios {
			fmt.Printf("%-18s %s\n", s.name, s.about)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		stop()
		if onlyLate(err) {
			os.Exit(exitLate)
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if err := o.validate(); err != nil {
		return err
	}
	if o.failover > 0 {
		return failover(ctx, o)
	}
	chosen, err := choose(o.scenarios, o.duration > 0)
	if err != nil {
		return err
	}
	if !o.inside {
		fmt.Printf("seed %d\n", o.seed)
	}
	if o.duration > 0 {
		return soak(ctx, o, chosen)
	}
	errs := playAll(ctx, o, chosen)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return failures(chosen, errs, o.seed)
}

// failures returns an error with a line for each scenario that failed: its name, its seed and the
// first line of its error. A log that is cut at the front ends with these lines.
func failures(chosen []scenario, errs []error, seed uint64) error {
	var failed []error
	for i, err := range errs {
		if err == nil {
			continue
		}
		first, _, _ := strings.Cut(err.Error(), "\n")
		line := fmt.Errorf("%s%s", failedPrefix(chosen[i], seed), first)
		if onlyLate(err) {
			line = &nodes.Late{Err: line}
		}
		failed = append(failed, line)
	}
	return errors.Join(failed...)
}

// failedPrefix begins the line of a scenario that failed.
func failedPrefix(s scenario, seed uint64) string {
	return fmt.Sprintf("%s failed with seed %d: ", s.name, seed)
}

// choose finds scenarios by their names, which commas separate. "" means all. It leaves out the
// long ones unless long is set.
func choose(names string, long bool) ([]scenario, error) {
	var chosen []scenario
	if names == "" {
		for _, s := range scenarios {
			if long || !s.long {
				chosen = append(chosen, s)
			}
		}
		return chosen, nil
	}
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no scenario %q; -list lists them", name)
		}
		chosen = append(chosen, scenarios[i])
	}
	return chosen, nil
}

// soak runs random scenarios, each with its own seed, until the time has passed or one fails.
func soak(ctx context.Context, o options, chosen []scenario) error {
	rng := rand.New(rand.NewPCG(o.seed, 0))
	began := time.Now()
	rounds := 0
	for ; time.Since(began) < o.duration; rounds++ {
		s, seed := chosen[rng.IntN(len(chosen))], rng.Uint64()
		if err := play(ctx, o, s, seed); err != nil {
			return fmt.Errorf("after %d scenarios: %s fails with -scenarios %s -seed %d: %w", rounds, s.name, s.name, seed, err)
		}
	}
	fmt.Printf("%d scenarios in %v, none failed\n", rounds, time.Since(began).Round(time.Second))
	return nil
}

// playAll plays scenarios, -jobs of them at the same time, and returns how each ended. It plays
// those that need the whole machine first, one by one.
func playAll(ctx context.Context, o options, chosen []scenario) []error {
	errs := make([]error, len(chosen))
	slots := make(chan struct{}, o.jobs)
	var reporting sync.Mutex
	var playing sync.WaitGroup
	for _, busy := range []bool{true, false} {
		for i, s := range chosen {
			if s.busy != busy {
				continue
			}
			slots <- struct{}{}
			playing.Go(func() {
				defer func() { <-slots }()
				if ctx.Err() != nil {
					return
				}
				o := o
				if o.jobs > 1 { // each report is printed in one piece
					var report bytes.Buffer
					defer func() {
						reporting.Lock()
						defer reporting.Unlock()
						_, _ = report.WriteTo(os.Stdout) // as fmt.Print
					}()
					o.out = &report
				}
				errs[i] = play(ctx, o, s, o.seed)
			})
			if busy {
				playing.Wait()
			}
		}
	}
	playing.Wait()
	return errs
}

// play plays one scenario. With -again it plays a scenario once more that failed only by time
// limits: a machine that runs other work may miss time limits, but it loses nothing.
func play(ctx context.Context, o options, s scenario, seed uint64) error {
	err := attempt(ctx, o, s, seed)
	if !o.again || !onlyLate(err) || ctx.Err() != nil {
		return err
	}
	fmt.Fprintf(o.out, "%-18s only missed a time limit: it is run once more\n", s.name)
	return attempt(ctx, o, s, seed)
}

// exitLate is the exit status of a run in which scenarios failed only by time limits.
const exitLate = 3

// onlyLate reports whether all errors that an error joins are missed time limits.
func onlyLate(err error) bool {
	switch e := err.(type) { //nolint:errorlint // it has to see all of a tree
	case *nodes.Late:
		return true
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(err error) bool { return !onlyLate(err) })
	case interface{ Unwrap() error }:
		return onlyLate(e.Unwrap())
	}
	return false
}

// attempt plays one scenario and reports it in one line, or in as many as it needs to describe a
// failure.
func attempt(ctx context.Context, o options, s scenario, seed uint64) error {
	o.seed = seed
	began := time.Now()
	report := func(result, text string) {
		fmt.Fprintf(o.out, "%-18s %-7s %5.1fs  %s\n", s.name, result, time.Since(began).Seconds(), text)
	}
	if s.previous {
		if _, err := os.Stat(o.previous); err != nil {
			report("skipped", fmt.Sprintf("no program of the previous release (make previous): %v", err))
			return nil
		}
	}
	if s.clocks {
		if _, err := os.Stat(o.clocks); err != nil {
			report("skipped", fmt.Sprintf("no program with a clock that can be set (make clocks): %v", err))
			return nil
		}
	}
	if s.network && !o.inside {
		err := enterNamespace(ctx, o, s)
		if errors.Is(err, errNoNamespace) {
			report("skipped", err.Error())
			return nil
		}
		return err // it has printed its report already
	}
	dir, err := os.MkdirTemp("", "brokerd-cluster")
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeoutCause(ctx, cmp.Or(s.limit, scenarioTimeout)+4*o.pause, errTooLong)
	defer cancel()
	st, err := newStage(limited, o, s, dir)
	if err == nil {
		err = st.play()
	}
	if err != nil {
		report("FAILED", fmt.Sprintf("seed %d: %v", seed, err))
		st.confess(o.out)
		return err
	}
	report("ok", st.summary())
	if o.keep {
		fmt.Fprintf(o.out, "the data and the logs are in %s\n", dir)
		return nil
	}
	return os.RemoveAll(dir)
}

// scenarioTimeout is the default limit of a scenario, not counting its longest pauses.
const scenarioTimeout = 150 * time.Second

var errTooLong = errors.New("the scenario takes too long")
