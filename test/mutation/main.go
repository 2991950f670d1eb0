// Command mutation tests the tests. It plants one mistake at a time into the sources, runs the tests
// that must find it, and fails for each mistake that they miss. The mistakes are listed in the files
// of the directory mistakes: a violated rule of docs/replication.md, a skipped check, a limit that is
// off by one.
//
// The work tree is not changed: the Go tool reads the changed file through an overlay. A mistake that
// does not build, or whose text is not found exactly once, is an error: a change of that code must
// update the list.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// testTimeout bounds the tests of one mistake. Tests that hang have found it.
const testTimeout = 2 * time.Minute

type options struct {
	root string
	only string
	jobs int
	part string
	list bool
}

func (o *options) addFlags(fs *flag.FlagSet) {
	fs.StringVar(&o.root, "root", ".", "`DIR` of the module")
	fs.StringVar(&o.only, "only", "", "plant only mistakes whose name contains `TEXT`")
	fs.IntVar(&o.jobs, "jobs", runtime.NumCPU(), "mistakes to test at the same time")
	fs.StringVar(&o.part, "part", "1/1", "`K/N`: plant the Kth of N parts of the mistakes")
	fs.BoolVar(&o.list, "list", false, "print the names of the mistakes and plant none")
}

func main() {
	var o options
	o.addFlags(flag.CommandLine)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, o, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

// run plants the requested mistakes and prints a line for each.
func run(ctx context.Context, o options, out io.Writer) error {
	all, err := mistakes()
	if err != nil {
		return err
	}
	chosen, err := o.choose(all)
	if err != nil {
		return err
	}
	if o.list {
		for _, m := range chosen {
			fmt.Fprintln(out, m.name)
		}
		return nil
	}
	drop, err := borrowBuildCache(ctx, o.root)
	if err != nil {
		return err
	}
	defer drop()
	verdicts := make([]verdict, len(chosen))
	next := make(chan int)
	var workers sync.WaitGroup
	var printing sync.Mutex
	for range max(o.jobs, 1) {
		workers.Go(func() {
			for i := range next {
				verdicts[i] = chosen[i].plant(ctx, o.root)
				printing.Lock()
				fmt.Fprintf(out, "%-9s %s%s\n", verdicts[i].outcome, chosen[i].name, verdicts[i].detail)
				printing.Unlock()
			}
		})
	}
	for i := range chosen {
		next <- i
	}
	close(next)
	workers.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	return summary(verdicts)
}

// choose returns the mistakes of the requested part and name. The parts alternate in the list, so
// that each has some of every package.
func (o *options) choose(all []mistake) ([]mistake, error) {
	var k, n int
	if _, err := fmt.Sscanf(o.part, "%d/%d", &k, &n); err != nil || k < 1 || k > n {
		return nil, fmt.Errorf("-part %s: want K/N with K from 1 to N", o.part)
	}
	var chosen []mistake
	for i, m := range all {
		if i%n == k-1 && strings.Contains(m.name, o.only) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no mistake of part %s has %q in its name", o.part, o.only)
	}
	return chosen, nil
}

// summary returns an error unless every mistake was found.
func summary(verdicts []verdict) error {
	missed, broken := 0, 0
	for _, v := range verdicts {
		switch v.outcome {
		case outcomeMissed:
			missed++
		case outcomeBroken:
			broken++
		case outcomeFound:
		}
	}
	if missed+broken > 0 {
		return fmt.Errorf("%d of %d mistakes were found by no test, %d could not be planted", missed, len(verdicts), broken)
	}
	return nil
}

// borrowBuildCache makes the Go tool use a copy of its build cache, made of links, until drop is
// called. The packages built with the mistakes fill more than a gigabyte for one part, and the Go
// tool would keep them for days.
func borrowBuildCache(ctx context.Context, root string) (drop func(), err error) {
	out, err := goTool(ctx, root, "env", "GOCACHE")
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	from := strings.TrimSpace(out)
	if err := os.MkdirAll(from, 0o777); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(filepath.Dir(from), "mutation-build-") // on the same file system
	if err != nil {
		return nil, err
	}
	files, _ := filepath.Glob(filepath.Join(from, "[0-9a-f][0-9a-f]", "*-[ad]")) // the pattern is valid
	for _, f := range files {
		to := filepath.Join(dir, filepath.Base(filepath.Dir(f)))
		_ = os.Mkdir(to, 0o777)                             // it may exist
		_ = os.Link(f, filepath.Join(to, filepath.Base(f))) // what is not linked is built again
	}
	return func() { _ = os.RemoveAll(dir) }, os.Setenv("GOCACHE", dir)
}

// outcome is the outcome of a mistake.
type outcome string

const (
	outcomeFound  outcome = "found"
	outcomeMissed outcome = "MISSED"
	outcomeBroken outcome = "BROKEN" // it could not be planted
)

type verdict struct {
	outcome outcome
	detail  string
}

// plant builds the module with the mistake and runs its tests.
func (m *mistake) plant(ctx context.Context, root string) verdict {
	began := time.Now()
	dir, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return verdict{outcomeBroken, ": " + err.Error()}
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := m.overlay(root, dir)
	if err != nil {
		return verdict{outcomeBroken, ": " + err.Error()}
	}
	args := []string{"test", "-overlay", overlay, "-count", "1", "-failfast", "-vet", "off", "-timeout", testTimeout.String()}
	if m.run != "" {
		args = append(args, "-run", m.run)
	}
	text, err := goTool(ctx, root, append(args, m.tests...)...)
	took := time.Since(began).Round(100 * time.Millisecond)
	var failed *exec.ExitError
	switch {
	case err == nil:
		return verdict{outcomeMissed, fmt.Sprintf(": %s %s passed (%s)", strings.Join(m.tests, " "), m.run, took)}
	case !errors.As(err, &failed), strings.Contains(text, "[build failed]"), strings.Contains(text, "[setup failed]"):
		return verdict{outcomeBroken, ": " + err.Error() + "\n" + text}
	}
	return verdict{outcomeFound, fmt.Sprintf(": %s (%s)", finder(text), took)}
}

// overlay writes the changed file and the Go tool's description of it into dir, and returns the
// description's path.
func (m *mistake) overlay(root, dir string) (string, error) {
	path, err := filepath.Abs(filepath.Join(root, m.file))
	if err != nil {
		return "", err
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	changed, err := m.apply(string(source))
	if err != nil {
		return "", err
	}
	planted := filepath.Join(dir, filepath.Base(path))
	if err := os.WriteFile(planted, []byte(changed), 0o600); err != nil {
		return "", err
	}
	about, err := json.Marshal(map[string]any{"Replace": map[string]string{path: planted}})
	if err != nil {
		return "", err
	}
	description := filepath.Join(dir, "overlay.json")
	return description, os.WriteFile(description, about, 0o600)
}

func goTool(ctx context.Context, root string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	text, err := cmd.CombinedOutput()
	return string(text), err
}

var (
	failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	panicked   = regexp.MustCompile(`(?m)^panic: (.*)`)
)

// finder returns the name of the test that failed, as the Go tool's output has it.
func finder(text string) string {
	if found := failedTest.FindStringSubmatch(text); found != nil {
		return found[1]
	}
	if found := panicked.FindStringSubmatch(text); found != nil {
		return found[1]
	}
	return "the tests failed"
}
