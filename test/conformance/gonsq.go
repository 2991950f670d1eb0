package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The test suite of the Go client, from the module proxy.
const (
	goNSQModule = "github.com/nsqio/go-nsq@v1.1.0"
	goNSQSum    = "h1:PQg+xxiUjA7V+TLdXw7nVrJ5Jbl3sN86EhGCQj4+FYE="
	goNSQTests  = 24
)

// goNSQAttempts is how often the suite is run while nothing but its own logging fails it.
const goNSQAttempts = 3

// goNSQLogs is the message with which the testing package ends a process whose goroutine uses the
// log of a finished test. A consumer of the suite does so if it reconnects to the suite's own
// server at the moment when the last test ends. No broker is involved.
const goNSQLogs = "panic: Log in goroutine after Test"

// goNSQ runs go-nsq's own tests. They expect nsqd on ports 4150 and 4151 with
// the certificates of their test folder.
func goNSQ(e env) (string, error) {
	src, err := moduleSource(e, goNSQModule, goNSQSum)
	if err != nil {
		return "", err
	}
	for attempt := 1; ; attempt++ {
		count, err := goNSQOnce(e, src, filepath.Join(e.scratch, fmt.Sprintf("data-%d", attempt)))
		if err != nil && count.logsLate() && attempt < goNSQAttempts {
			continue
		}
		said := fmt.Sprintf("%d of %d passed", count.passed, goNSQTests)
		if attempt > 1 {
			said += fmt.Sprintf(" in run %d", attempt)
		}
		return said, err
	}
}

// goNSQOnce runs the tests against a broker with a new data directory.
func goNSQOnce(e env, src, data string) (goCount, error) {
	return runGoTests(e, src, data, goNSQTests, nil,
		"--tls-cert="+filepath.Join(src, "test", "server.pem"),
		"--tls-key="+filepath.Join(src, "test", "server.key"),
		"--tls-root-ca-file="+filepath.Join(src, "test", "ca.pem"))
}

// runGoTests runs the tests of a module against a broker on ports 4150 and 4151. All
// tests must pass but those that cannot, which must fail.
func runGoTests(e env, src, data string, tests int, cannot []string, flags ...string) (goCount, error) {
	if err := os.MkdirAll(data, 0o755); err != nil {
		return goCount{}, err
	}
	const tcp, http = "127.0.0.1:4150", "127.0.0.1:4151"
	s, err := serve(e, "nsqd", http, []string{tcp, http},
		append([]string{"--tcp-address=" + tcp, "--http-address=" + http, "--data-path=" + data}, flags...)...)
	if err != nil {
		return goCount{}, err
	}
	var out bytes.Buffer
	cmd := command(e.ctx, src, &out, "go", "test", "-count=1", "-json", "-timeout=2m", ".")
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	testErr := cmd.Run()
	log, stopErr := s.stop()

	count := countGoTests(out.Bytes())
	slices.Sort(count.bad)
	if len(cannot) > 0 && slices.Equal(count.bad, cannot) {
		testErr = nil
	}
	err = errors.Join(testErr, stopErr)
	if err == nil && (count.passed != tests-len(cannot) || !slices.Equal(count.bad, cannot)) {
		err = errOtherCount
	}
	if err != nil {
		err = fmt.Errorf("%w\n%s\nthe broker's log ends:\n%s", err, strings.Join(count.failures(), ""), log)
	}
	return count, err
}

// moduleSource copies a module to a directory in which its tests can be run. Its checksum is
// verified.
func moduleSource(e env, module, sum string) (string, error) {
	text, err := fetch(e, e.root, "go", "mod", "download", "-json", module)
	if err != nil {
		return "", err
	}
	var mod struct{ Dir, Sum string }
	if err := json.Unmarshal(text, &mod); err != nil {
		return "", err
	}
	if mod.Sum != sum {
		return "", fmt.Errorf("%s has sum %s, not %s", module, mod.Sum, sum)
	}
	src := filepath.Join(e.scratch, "src")
	return src, os.CopyFS(src, os.DirFS(mod.Dir))
}

// errOtherCount: a suite was complete, with an unexpected number of tests.
var errOtherCount = errors.New("not the number of tests that must pass")

// goCount is the result of go test -json.
type goCount struct {
	passed int
	bad    []string            // names that failed or were skipped
	output map[string][]string // by name
}

// countGoTests reads the events of go test -json. Lines that are no events, as
// of a build that failed, count as output of no test.
func countGoTests(events []byte) goCount {
	c := goCount{output: map[string][]string{}}
	lines := bufio.NewScanner(bytes.NewReader(events))
	lines.Buffer(nil, len(events)+1)
	for lines.Scan() {
		var ev struct{ Action, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &ev) != nil {
			ev.Action, ev.Output = "output", lines.Text()+"\n"
		}
		switch {
		case ev.Action == "output":
			c.output[ev.Test] = append(c.output[ev.Test], ev.Output)
		case ev.Test == "" || strings.Contains(ev.Test, "/"):
		case ev.Action == "pass":
			c.passed++
		case ev.Action == "fail", ev.Action == "skip":
			c.bad = append(c.bad, ev.Test)
		}
	}
	return c
}

// logsLate reports whether the suite's own logging ended the process. The test that ran at
// that moment, if there was one, counts as failed.
func (c goCount) logsLate() bool {
	ended := func(name string) bool {
		return slices.ContainsFunc(c.output[name], func(line string) bool { return strings.HasPrefix(line, goNSQLogs) })
	}
	return ended("") && len(c.bad) == 0 || len(c.bad) == 1 && ended(c.bad[0])
}

// failures returns the output of the failed tests, and the output without a test if no test
// failed.
func (c goCount) failures() []string {
	if len(c.bad) == 0 {
		return c.output[""]
	}
	var lines []string
	for _, name := range slices.Sorted(slices.Values(c.bad)) {
		lines = append(lines, c.output[name]...)
	}
	return lines
}
