package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	_ "embed"

	"github.com/brokerd/brokerd/test/steps"
)

// The test suite of another JavaScript client, from its npm package.
const squeakyTests = 33

// squeakyExcept is the test that is omitted: it publishes with a delay of 1 ms, and waits without
// limit for the message to arrive 50 ms later. nsqd checks deferred messages every 100 ms.
const squeakyExcept = "/^can dpublish$/"

// squeakyLate is the test that requires a message deferred by 2 s to be received more than 2 s
// after its timestamp, both in whole milliseconds: one that arrives within the millisecond fails
// it, which happens occasionally. The file is then run again.
//
// squeakyEarly is how the test of pausing fails if it gets the message that it publishes over another
// connection right after RDY 0: no answer says that the broker has read a RDY, and it may read the
// publish first. The file is run again, too.
const (
	squeakyLate     = "can keep a message alive"
	squeakyEarly    = "Must be paused in order to resume"
	squeakyAttempts = 5
)

const (
	squeakyLimit   = time.Minute // for a file of tests; the longest one needs 7 s
	squeakyPreload = "preload.js"
)

// Tests of squeaky listen at fixed ports. A file whose port is in use is run again after a pause:
// no broker is involved in that.
const (
	squeakyPortTaken = 75 // the exit code, of preload.js
	squeakyPortPause = 5 * time.Second
)

var (
	// squeakyLock pins the client and all that its tests depend on.
	//
	//go:embed squeaky/package-lock.json
	squeakyLock []byte
	//go:embed squeaky/package.json
	squeakyPackage []byte
	// squeakyEnds ends a file of tests that would otherwise wait forever, and
	// prints the reason.
	//
	//go:embed squeaky/preload.js
	squeakyEnds []byte
)

// squeaky runs the package's tests, one file after the other, against nsqd's usual ports.
func squeaky(e env) (string, error) {
	dir := squeakyInstall(e)
	steps.Must(write(e.scratch, map[string]string{squeakyPreload: string(squeakyEnds)}))
	s := serveNSQD(e, filepath.Join(e.scratch, "data"))
	files, err := filepath.Glob(filepath.Join(dir, "test", "*-test.js"))
	var all tapCount
	for _, file := range files {
		count, runErr := squeakyFileAgain(e, dir, file, httpAddress)
		if runErr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", filepath.Base(file), runErr))
		}
		all.passed, all.bad = all.passed+count.passed, append(all.bad, count.bad...)
	}
	return all.verdict(squeakyTests, errors.Join(err, s.Stop()), s.LogEnd)
}

// squeakyFileAgain runs a file of tests, and repeats it if that is allowed.
func squeakyFileAgain(e env, dir, file, broker string) (tapCount, error) {
	for n := 1; ; n++ {
		count, err := squeakyFile(e, dir, file, broker)
		var exit *exec.ExitError
		taken := errors.As(err, &exit) && exit.ExitCode() == squeakyPortTaken
		if err == nil || n == squeakyAttempts || !taken && !count.onlyFailed(squeakyLate) && !count.onlyFailed(squeakyEarly) {
			return count, err
		}
		if taken {
			select {
			case <-time.After(squeakyPortPause):
			case <-e.ctx.Done():
				return count, err
			}
		}
	}
}

// squeakyFile runs a file of tests once. The error is how it ended.
func squeakyFile(e env, dir, file, broker string) (c tapCount, err error) {
	var out bytes.Buffer
	cmd := command(e.ctx, dir, &out, "node", "--require", filepath.Join(e.scratch, squeakyPreload), file)
	cmd.Env = append(os.Environ(), "TAP_GREP="+squeakyExcept, "TAP_GREP_INVERT=1",
		fmt.Sprintf("STALLED_AFTER_MS=%d", squeakyLimit.Milliseconds()), "STALLED_STATS=http://"+broker+"/stats")
	err = cmd.Run()
	c.add(out.String())
	return c, err
}

// squeakyInstall returns the directory of the package.
func squeakyInstall(e env) (dir string) {
	steps.During("squeaky cannot be installed", func() {
		packages{
			pins: map[string]string{"package.json": string(squeakyPackage), "package-lock.json": string(squeakyLock)},
			need: needNode,
			get:  func(e env) { npmInstall(e, e.cache) },
		}.install(e)
	})
	return filepath.Join(e.cache, "node_modules", "squeaky")
}

// tapCount is the result of tests in the Test Anything Protocol.
type tapCount struct {
	passed int
	bad    []string // output of the failed tests
}

// add reads the output of a test file. Tests are the lines without indentation; skipped tests do
// not count.
func (c *tapCount) add(out string) {
	failing := false
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "not ok "), strings.HasPrefix(line, "# stalled: "):
			c.bad, failing = append(c.bad, line), true
		case strings.HasPrefix(line, "ok "):
			failing = false
			if !strings.Contains(line, " # SKIP") {
				c.passed++
			}
		case failing && strings.HasPrefix(line, " "):
			c.bad[len(c.bad)-1] += "\n" + line
		}
	}
}

// verdict returns the result of a suite of tests, which ended with err, in one line. An error is explained by the output
// of the failed tests, and by what details returns.
func (c *tapCount) verdict(tests int, err error, details func() string) (string, error) {
	if err == nil && (c.passed != tests || len(c.bad) > 0) {
		err = errOtherCount
	}
	if err != nil {
		err = fmt.Errorf("%w\n%s\n%s", err, strings.Join(c.bad, "\n"), details())
	}
	return fmt.Sprintf("%d of %d passed", c.passed, tests), err
}

// onlyFailed reports whether the one test failed and no other.
func (c *tapCount) onlyFailed(test string) bool {
	if len(c.bad) != 1 {
		return false
	}
	line, _, _ := strings.Cut(c.bad[0], "\n")
	_, name, _ := strings.Cut(line, " - ")
	name, _, _ = strings.Cut(name, " # ")
	return name == test
}
