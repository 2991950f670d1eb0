package main

import (
	"bytes"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	_ "embed"

	"github.com/brokerd/brokerd/test/steps"
)

// The test suite of the JavaScript client, from its npm package.
const (
	nsqjsPackage   = "nsqjs@0.13.0"
	nsqjsIntegrity = "sha512-h4sZoJu8qumYYGLts9ObWl+eK3BzkbBuE7UhrQYkLMQvaeHXFlGfBXB5IcgNBRQVOuEVRfT/1V4bPpgiJyN/RQ=="
	nsqjsTests     = 171

	// nsqjsAuth is the file of the tests that start a broker, for a run with access control on.
	nsqjsAuth      = "test/z_integration_test.js"
	nsqjsAuthTests = 19
)

// mochaAttempts is how often the suite runs at most, where only tests fail that may.
const mochaAttempts = 5

// nsqjsLock pins everything that the package and its tests depend on. The
// package itself comes without one.
//
//go:embed nsqjs/package-lock.json
var nsqjsLock []byte

// nsqjsPreload has the client send the broker's token by default.
//
//go:embed nsqjs/preload.js
var nsqjsPreload []byte

// nsqjs runs the package's mocha suite with a program named nsqd first in the search path, because
// the suite starts, kills and restarts it.
func nsqjs(e env) (string, error) {
	dir, link := nsqjsInstall(e), standIn(e, "nsqd")
	steps.Must(mustBeFree("127.0.0.1:4150"))
	report, runErr := runMocha(e, dir, link)
	for again := 1; again < mochaAttempts && runErr != nil && report.mayFail(); again++ {
		report, runErr = runMocha(e, dir, link)
	}
	tests := nsqjsTests
	if e.token != "" {
		tests = nsqjsAuthTests
	}
	said := fmt.Sprintf("%d of %d passed", report.Stats.Passes, tests)
	if runErr == nil && (report.Stats.Passes != tests || report.Stats.Failures+report.Stats.Pending > 0) {
		runErr = errOtherCount
	}
	if runErr != nil {
		return said, fmt.Errorf("%w\n%s", runErr, report.failures())
	}
	return said, nil
}

// runMocha runs the suite once. runErr is how mocha ended.
func runMocha(e env, dir, link string) (report mocha, runErr error) {
	var errs, out bytes.Buffer
	args := []string{"--reporter", "json"}
	if e.token != "" {
		steps.Must(write(e.scratch, map[string]string{"preload.js": string(nsqjsPreload)}))
		// Nodes that enable access control before they answer may need longer than the 2 s for a hook.
		args = append(args, "--timeout", "10000", "--require", filepath.Join(e.scratch, "preload.js"), nsqjsAuth)
	}
	cmd := command(e.ctx, dir, &errs, filepath.Join(dir, "node_modules", ".bin", "mocha"), args...)
	cmd.Stdout = &out
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(link)+":"+os.Getenv("PATH"), "TMPDIR="+e.scratch)
	cmd.Env = append(cmd.Env, e.variables()...)
	runErr = cmd.Run()
	report, err := readMocha(out.Bytes())
	if err != nil {
		steps.Fail("%w\n%s\n%s", errors.Join(runErr, err), tail(out.Bytes()), tail(errs.Bytes()))
	}
	return report, runErr
}

// mocha is the output of mocha's json reporter.
type mocha struct {
	Stats    struct{ Passes, Failures, Pending int }
	Failures []struct {
		FullTitle string
		Err       struct{ Message, Stack string }
	}
}

// readMocha finds the report in mocha's output, after any lines that the suite printed.
func readMocha(out []byte) (mocha, error) {
	var m mocha
	begin := bytes.Index(out, []byte("{\n  \"stats\""))
	if begin < 0 {
		return m, errors.New("mocha printed no report")
	}
	return m, json.NewDecoder(bytes.NewReader(out[begin:])).Decode(&m)
}

// mayFail reports whether all failures depend on the suite's own timing: tests of how the client
// shares its readiness among made-up connections and of made-up messages, which wait for timers, and tests that close
// their writer as soon as the message has arrived, and count the publish as failed if its OK had
// not. The protocol does not define which of the two comes first; if the leader is another node,
// the message sometimes does.
func (m mocha) mayFail() bool {
	for _, f := range m.Failures {
		timer := strings.HasPrefix(f.FullTitle, "ReaderRdy ") || strings.HasPrefix(f.FullTitle, "Message timeout ")
		closed := strings.HasPrefix(f.FullTitle, "integration end to end should send and receive a ") &&
			strings.Contains(f.Err.Message, "done() called multiple times") &&
			strings.HasSuffix(f.Err.Message, "nsqd connection closed")
		if !timer && !closed {
			return false
		}
	}
	return len(m.Failures) > 0
}

func (m mocha) failures() string {
	var b strings.Builder
	for _, f := range m.Failures {
		fmt.Fprintf(&b, "%s: %s\n%s\n", f.FullTitle, f.Err.Message, f.Err.Stack)
	}
	return b.String()
}

// nsqjsInstall returns the directory of the unpacked package with its dependencies in
// place.
func nsqjsInstall(e env) (dir string) {
	dir = filepath.Join(e.cache, "package")
	packages{
		pins: map[string]string{"package-lock.json": string(nsqjsLock)},
		need: needNode,
		get: func(e env) {
			fetch(e, e.cache, "npm", "pack", nsqjsPackage)
			unpack(e, filepath.Join(e.cache, strings.Replace(nsqjsPackage, "@", "-", 1)+".tgz"))
			steps.Must(write(dir, map[string]string{"package-lock.json": string(nsqjsLock)}))
			npmInstall(e, dir)
		},
	}.install(e)
	return dir
}

// npmInstall installs the packages of the lock file in a directory.
func npmInstall(e env, dir string) {
	fetch(e, dir, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
}

// needNode installs Node.js if it is missing and may be installed.
func needNode(e env) {
	_, nodeErr := exec.LookPath("node")
	_, npmErr := exec.LookPath("npm")
	if nodeErr == nil && npmErr == nil {
		return
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		steps.Fail("node and npm are not installed, and only root with apt-get may install them here")
	}
	fetch(e, "", "apt-get", "update", "-q")
	fetch(e, "", "apt-get", "install", "-q", "-y", "--no-install-recommends", "nodejs", "npm")
}

// unpack checks the package's archive against its pinned hash and writes its files below the directory that it is in.
func unpack(e env, archive string) {
	sum := sha512.Sum512(steps.Need(os.ReadFile(archive)))
	if got := "sha512-" + base64.StdEncoding.EncodeToString(sum[:]); got != nsqjsIntegrity {
		steps.Fail("%s has integrity %s, not %s", archive, got, nsqjsIntegrity)
	}
	steps.Need(capture(e.ctx, filepath.Dir(archive), "tar", "-xz", "--no-same-owner", "-f", archive))
}
