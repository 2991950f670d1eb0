// Command conformance runs the published test suites of other clients, unmodified, against the built
// broker, and then the examples of README.md as printed there. For a client that is published
// without tests, this directory has a program that uses everything the client can do.
//
// It knows how to fetch a suite through its package manager, how to run the broker in place of nsqd,
// and how many tests must pass. It does not know the broker's internals: the broker is a program with
// ports.
//
// With -nodes 3, the suites use one node of a cluster. Suites whose client can send AUTH run a second time with access
// control on, those parts of them that use the broker: the client's secret is then a token of a user.
//
// A suite passes if exactly the expected number of its tests passed and none failed or was skipped.
// A step that involves a broker is never retried.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/brokerd/brokerd/test/steps"
)

// env is the environment of every suite.
type env struct {
	ctx     context.Context
	broker  string // the stand-in for nsqd
	cache   string // kept between runs
	scratch string // removed at the end
	root    string // of the repository
	nodes   int    // behind the stand-in for nsqd
	work    string // where blocks of the shell run; "": at the root
	token   string // the file with the clients' token; "": access control is off
	topics  string // what they may use then
}

// suite is one suite. run is a list of steps and returns their result, in one line.
type suite struct {
	name  string
	limit time.Duration
	run   func(env) (string, error)
	// topics is the pattern of the topics that it uses, for a second run with access control on;
	// "": there is none, because the client cannot send AUTH.
	topics string
}

var suites = []suite{
	{"go-nsq", 4 * time.Minute, goNSQ, "*"},
	{"nsqjs", 8 * time.Minute, nsqjs, "*"},
	{"squeaky", 3 * time.Minute, squeaky, ""},
	{"pynsq", 5 * time.Minute, pynsq, ""}, // it enables access control itself
	{"nsq-j", 3 * time.Minute, nsqj, "nsqj_*"},
	{"nsq-go", 4 * time.Minute, nsqGo, ""},
	{"readme", 4 * time.Minute, readme, ""},
	{"manual", 3 * time.Minute, manual, ""},
}

func main() {
	if calledNSQD() {
		if err := steps.Run(func() { asNSQD(os.Args[1:]) }); err != nil {
			fmt.Fprintln(os.Stderr, "nsqd:", err)
			os.Exit(1)
		}
		return
	}
	var (
		broker = flag.String("broker", os.Getenv("NSQD_BIN"), "`PROGRAM` to test; default: $NSQD_BIN, else bin/brokerd")
		cache  = flag.String("cache", ".cache/conformance", "`DIRECTORY` for what is fetched")
		only   = flag.String("suite", "", "run only these, with commas; default: all")
		n      = flag.Int("nodes", 1, "how many nodes stand in for nsqd")
	)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := steps.Run(func() { run(ctx, *broker, *cache, *only, *n) }); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		stop()
		os.Exit(1)
	}
}

// run runs the chosen suites one at a time and reports all of them.
func run(ctx context.Context, broker, cache, only string, n int) {
	root := steps.Need(os.Getwd())
	broker = steps.Need(filepath.Abs(cmp.Or(broker, "bin/brokerd")))
	if _, err := os.Stat(broker); err != nil {
		steps.Fail("no broker to test (make build): %w", err)
	}
	stand := behindNSQD(broker, n)
	if n > 1 {
		broker = stand
	}
	cache = steps.Need(filepath.Abs(cache))
	scratch := steps.Need(os.MkdirTemp("", "conformance"))
	defer os.RemoveAll(scratch)

	chosen := strings.FieldsFunc(only, func(r rune) bool { return r == ',' })
	var failed []string
	for _, s := range suites {
		if len(chosen) > 0 && !slices.Contains(chosen, s.name) {
			continue
		}
		runs := []env{{broker: broker, cache: filepath.Join(cache, s.name), scratch: filepath.Join(scratch, s.name), root: root, nodes: n}}
		if s.topics != "" {
			runs = append(runs, withAccess(runs[0], s.topics))
		}
		for _, e := range runs {
			var cancel context.CancelFunc
			e.ctx, cancel = context.WithTimeout(ctx, s.limit)
			began := time.Now()
			said, err := ended(func() (string, error) { return s.run(e) })
			cancel()
			if err != nil {
				failed = append(failed, s.name)
				said = "FAILED: " + strings.TrimSpace(said+" "+err.Error())
			}
			fmt.Printf("%-8s %6.1fs  %s, %s\n", s.name, time.Since(began).Seconds(), e.describe(), said)
		}
	}
	if len(failed) > 0 {
		steps.Fail("failed: %s", strings.Join(failed, ", "))
	}
}

// ended returns the result of a list of steps, also of one that fails after its end.
func ended(list func() (string, error)) (said string, err error) {
	failed := steps.Run(func() { said, err = list() })
	return said, errors.Join(failed, err)
}
