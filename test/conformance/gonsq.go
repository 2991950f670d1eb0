package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/test/steps"
)

// The test suite of the Go client, from the module proxy.
const (
	goNSQModule = "github.com/nsqio/go-nsq@v1.1.0"
	goNSQSum    = "h1:PQg+xxiUjA7V+TLdXw7nVrJ5Jbl3sN86EhGCQj4+FYE="
	goNSQTests  = 24

	// goNSQAuth are the tests that connect to a broker, for a run with access control on.
	goNSQAuth      = "^TestProducer|^TestConsumer(Deflate|Snappy|TLS.*)?$"
	goNSQAuthTests = 15
)

// goNSQSecret is where the client has the default of its secret, with that of an earlier broker if
// there was one. The suite sets none.
var goNSQSecret = regexp.MustCompile("`opt:\"auth_secret\"[^`]*`")

// goNSQAttempts is how often the suite is run while nothing but its own logging fails it.
const goNSQAttempts = 3

// goNSQLogs is the message with which the testing package ends a process whose goroutine uses the
// log of a finished test. A consumer of the suite does so if it reconnects to the suite's own
// server at the moment when the last test ends. No broker is involved.
const goNSQLogs = "panic: Log in goroutine after Test"

// goNSQ runs go-nsq's own tests. They expect nsqd on ports 4150 and 4151 with
// the certificates of their test folder.
func goNSQ(e env) (string, error) {
	src := moduleSource(e, goNSQModule, goNSQSum)
	g := goTests{src: src, tests: goNSQTests, flags: []string{
		"--tls-cert=" + filepath.Join(src, "test", "server.pem"),
		"--tls-key=" + filepath.Join(src, "test", "server.key"),
		"--tls-root-ca-file=" + filepath.Join(src, "test", "ca.pem"),
	}}
	if e.token != "" {
		g.run, g.tests, g.secret = goNSQAuth, goNSQAuthTests, useGoNSQSecret
	}
	for attempt := 1; ; attempt++ {
		g.data = filepath.Join(e.scratch, fmt.Sprintf("data-%d", attempt))
		count, err := g.test(e)
		if err != nil && count.logsLate() && attempt < goNSQAttempts {
			continue
		}
		said := fmt.Sprintf("%d of %d passed", count.passed, g.tests)
		if attempt > 1 {
			said += fmt.Sprintf(" in run %d", attempt)
		}
		return said, err
	}
}

// useGoNSQSecret makes a token the default of the client's option auth_secret.
func useGoNSQSecret(src, token string) error {
	file := filepath.Join(src, "config.go")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	parts := goNSQSecret.FindIndex(text)
	if parts == nil {
		return fmt.Errorf("%s does not define the option auth_secret", file)
	}
	with := fmt.Appendf(nil, "`opt:\"auth_secret\" default:%q`", token)
	return os.WriteFile(file, slices.Concat(text[:parts[0]], with, text[parts[1]:]), 0o644)
}

// goTests are the tests of a module. All must pass but those that cannot, which must fail.
type goTests struct {
	src, data string // of the module, and of a new broker
	run       string // a pattern that chooses tests; "": all
	tests     int
	cannot    []string
	flags     []string                      // of the broker
	secret    func(src, token string) error // has the client send a token; nil: access control is off
}

// test runs the tests against a broker on ports 4150 and 4151.
func (g *goTests) test(e env) (goCount, error) {
	s := serveNSQD(e, g.data, g.flags...)
	if g.secret != nil {
		token, err := e.secret()
		if err == nil {
			err = g.secret(g.src, token)
		}
		if err != nil {
			return goCount{}, errors.Join(err, s.Stop())
		}
	}
	var out bytes.Buffer
	cmd := command(e.ctx, g.src, &out, "go", "test", "-count=1", "-json", "-timeout=2m", "-run="+g.run, ".")
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	testErr := cmd.Run()
	stopErr := s.Stop()

	count := countGoTests(out.Bytes())
	slices.Sort(count.bad)
	if len(g.cannot) > 0 && slices.Equal(count.bad, g.cannot) {
		testErr = nil
	}
	err := errors.Join(testErr, stopErr)
	if err == nil && (count.passed != g.tests-len(g.cannot) || !slices.Equal(count.bad, g.cannot)) {
		err = errOtherCount
	}
	if err != nil {
		err = fmt.Errorf("%w\n%s\n%s", err, strings.Join(count.failures(), ""), s.LogEnd())
	}
	return count, err
}

// moduleSource copies a module to a directory in which its tests can be run. Its checksum is
// verified.
func moduleSource(e env, module, sum string) (src string) {
	var mod struct{ Dir, Sum string }
	steps.Must(json.Unmarshal(fetch(e, e.root, "go", "mod", "download", "-json", module), &mod))
	if mod.Sum != sum {
		steps.Fail("%s has sum %s, not %s", module, mod.Sum, sum)
	}
	src = filepath.Join(e.scratch, "src")
	steps.Must(os.CopyFS(src, os.DirFS(mod.Dir)))
	return src
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
