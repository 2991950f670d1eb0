// Command alerts fires the alerts of deploy/prometheus for real: a Prometheus with the shipped
// rules and the configuration that brokerctl prints scrapes three nodes, in which it causes the
// fault of each alert.
//
// It knows which fault belongs to which alert, and shortens the waiting times of the rules, so that
// an alert that takes an hour fires in seconds; the expressions stay. It does not know how brokerd
// counts: an alert on a metric or a label that no node exports does not fire, and fails the run.
// Each alert of the file is fired here, or is in the list of those that are not, with the reason.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/brokerd/brokerd/test/steps"
)

// options are the flags of a run.
type options struct {
	broker, ctl, other, prometheus, rules string
	only                                  string
	verbose                               bool
}

func main() {
	var o options
	flag.StringVar(&o.broker, "broker", "bin/brokerd", "`PROGRAM` to watch")
	flag.StringVar(&o.ctl, "brokerctl", "bin/brokerctl", "`PROGRAM` of the operator")
	flag.StringVar(&o.other, "other", "", "`PROGRAM` that is brokerd with another version; without it the alert about versions is not fired")
	flag.StringVar(&o.prometheus, "prometheus", "prometheus", "`PROGRAM` that is Prometheus")
	flag.StringVar(&o.rules, "rules", "deploy/prometheus/brokerd-alerts.yml", "`FILE` with the rules")
	flag.StringVar(&o.only, "only", "", "play only the scenes whose name contains `TEXT`")
	flag.BoolVar(&o.verbose, "v", false, "say what is done")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "alerts:", err)
		os.Exit(1)
	}
}

// notFired are the alerts that no scene provokes, with the reason; promtool tests their rules.
var notFired = map[string]string{
	"BrokerdScrubBehind":       "takes three weeks",
	"BrokerdSyncSlow":          "needs a slow disk",
	"BrokerdMetadataDiskHangs": "needs a disk that hangs",
	"BrokerdStalled":           "needs a disk that hangs",
	"BrokerdMemoryRefuses":     "needs clients that fill the memory budget: test/hostile has them",
	"BrokerdRunsLate":          "needs a machine that is short of processors",
	"BrokerdClockSkew":         "needs a node with another clock: test/cluster has one, in other-clocks",
}

// patience is how long rules wait, and how much of what: with the values of the file on the left. The window of a
// rate spans several scrapes.
var patience = []struct{ pattern, with string }{
	{`for: \w+`, "for: 1s"},
	{`interval: \w+`, "interval: 1s"},
	{`\[\d+[mh]\]`, "[15s]"},
	{`4\*3600`, "20"},
	{`oldest_message_age_seconds\) > 900`, "oldest_message_age_seconds) > 2"},
	{`replica_lag_seconds\) > 60`, "replica_lag_seconds) > 1"},
}

// hasten returns the rules with less patience. A rule that has changed, so that a pattern finds nothing, is an error.
func hasten(rules string) (string, error) {
	for _, p := range patience {
		re := regexp.MustCompile(p.pattern)
		if !re.MatchString(rules) {
			return "", fmt.Errorf("the rules have no %s", p.pattern)
		}
		rules = re.ReplaceAllString(rules, p.with)
	}
	return rules, nil
}

// namesOf returns the alerts of a file of rules.
func namesOf(rules string) (names []string) {
	for _, m := range regexp.MustCompile(`(?m)^ *- alert: (\w+)$`).FindAllStringSubmatch(rules, -1) {
		names = append(names, m[1])
	}
	return names
}

// unknown describes mistakes in the list of scenes: an alert that no scene fires and that is not
// excused, or one that is not in the file.
func unknown(alerts []string, scenes []scene) error {
	var problems []error
	accounted := slices.Collect(maps.Keys(notFired))
	for _, s := range scenes {
		accounted = append(accounted, s.fires...)
	}
	for _, name := range alerts {
		if !slices.Contains(accounted, name) {
			problems = append(problems, fmt.Errorf("no scene fires %s, and notFired does not say why", name))
		}
	}
	for _, name := range accounted {
		if !slices.Contains(alerts, name) {
			problems = append(problems, fmt.Errorf("the rules have no alert %s", name))
		}
	}
	return errors.Join(problems...)
}

// run plays all scenes.
func run(ctx context.Context, o options) (err error) {
	text, err := os.ReadFile(o.rules)
	if err != nil {
		return err
	}
	if err := unknown(namesOf(string(text)), scenes()); err != nil {
		return err
	}
	rules, err := hasten(string(text))
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "alerts")
	if err != nil {
		return err
	}
	st := &stage{o: o, dir: dir, began: time.Now()}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w\nlogs are in %s", err, dir)
			st.end()
			return
		}
		st.end()
		err = os.RemoveAll(dir)
	}()
	if err := os.WriteFile(filepath.Join(dir, "brokerd-alerts.yml"), []byte(rules), 0o600); err != nil {
		return err
	}
	if err := steps.Run(func() { st.start(ctx) }); err != nil {
		return err
	}
	var failed []error
	fired := 0
	for _, act := range acts() {
		n, err := st.play(ctx, act)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		fired, failed = fired+n, append(failed, err)
	}
	fmt.Printf("%d of %d alerts fired, %d are not provoked here\n", fired, len(namesOf(string(text))), len(notFired))
	return errors.Join(failed...)
}

// play plays the scenes of an act that were chosen, and returns how many alerts fired.
func (st *stage) play(ctx context.Context, act []scene) (fired int, err error) {
	var playing sync.WaitGroup
	var mu sync.Mutex // guards the results
	for _, s := range act {
		if !strings.Contains(s.name, st.o.only) {
			continue
		}
		playing.Go(func() {
			began := time.Now()
			failed := s.play(ctx, st)
			_, skipped := errors.AsType[cannot](failed)
			mu.Lock()
			defer mu.Unlock()
			outcome := "fires " + strings.Join(s.fires, ", ")
			switch {
			case skipped:
				outcome = "skipped: " + failed.Error()
			case failed != nil:
				outcome = "FAILED: " + failed.Error()
				err = errors.Join(err, fmt.Errorf("%s: %w", s.name, failed))
			case len(s.fires) == 0:
				outcome = "fires nothing"
			default:
				fired += len(s.fires)
			}
			fmt.Printf("%-26s %5.1fs  %s\n", s.name, time.Since(began).Seconds(), outcome)
		})
	}
	playing.Wait()
	return fired, err
}
