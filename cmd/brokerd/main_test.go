package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/brokerd/brokerd/internal/config"
	"github.com/brokerd/brokerd/internal/lookupd"
	"github.com/brokerd/brokerd/internal/node"
)

// The test binary is brokerd with a fake node, under all its names.
func TestMain(m *testing.M) {
	main := func() {
		signals := make(chan os.Signal, 4)
		signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		p := &program{args: os.Args, environ: os.Environ(), stdout: os.Stdout, stderr: os.Stderr, signals: signals, open: openFake}
		os.Exit(p.run(context.Background()))
	}
	testscript.Main(m, map[string]func(){"brokerd": main, "nsqd": main, "nsqlookupd": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			// exits CODE PROGRAM ARG... runs a program that ends with CODE.
			"exits": func(ts *testscript.TestScript, _ bool, args []string) {
				want, err := strconv.Atoi(args[0])
				ts.Check(err)
				got := 0
				var exit *exec.ExitError
				if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
					got = exit.ExitCode()
				} else {
					ts.Check(err)
				}
				if got != want {
					ts.Fatalf("exit code %d, want %d", got, want)
				}
			},
		},
	})
}

// fakeNode serves only a greeting. The variable FAKE makes it fail: "open", "serve", "deadlock"
// (never recovers), "stubborn" (never drains), "panic", "dead" (its liveness check).
type fakeNode struct {
	config node.Config
	ready  chan struct{}
	closed chan struct{}
	once   sync.Once
	mode   string
}

func openFake(ctx context.Context, c node.Config) (brokerNode, error) {
	mode := os.Getenv("FAKE")
	switch mode {
	case "open":
		return nil, &os.PathError{Op: "read", Path: "segment", Err: syscall.EIO}
	case "deadlock":
		<-ctx.Done()
		return nil, ctx.Err()
	case "panic":
		panic("the impossible")
	}
	n := &fakeNode{config: c, ready: make(chan struct{}), closed: make(chan struct{}), mode: mode}
	close(n.ready)
	return n, nil
}

func (n *fakeNode) Serve() error {
	if n.mode == "serve" {
		return syscall.ENOSPC
	}
	for _, l := range slices.Concat(n.config.Listeners.HTTP, n.config.Listeners.HTTPS) {
		go func() {
			_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, "%s %d", n.config.Advertise.TCP, n.config.Options.Limits.MaxConnections)
			}))
		}()
	}
	<-n.closed
	return nil
}

func (n *fakeNode) Ready() <-chan struct{} { return n.ready }
func (n *fakeNode) Status() string         { return "serving\nall" }
func (n *fakeNode) Alive() error {
	if n.mode == "dead" {
		return errors.New("stuck")
	}
	return nil
}

func (n *fakeNode) Reload(o config.Options) {
	n.config.Log.Debug("node reloaded", "drain", o.Process.DrainTimeout, "zone", o.Zone)
}
func (n *fakeNode) Catalog() lookupd.Catalog    { return n }
func (n *fakeNode) Topics() map[string][]string { return map[string][]string{"topic": {"channel"}} }
func (n *fakeNode) Changed() <-chan struct{}    { return nil }
func (n *fakeNode) Drain(ctx context.Context) error {
	if n.mode == "stubborn" {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (n *fakeNode) Close() error {
	n.once.Do(func() { close(n.closed); n.config.Listeners.Close() })
	return nil
}

// running is a program under test.
type running struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string // of stderr; closed at its end
	seen  []string
}

// patience is the timeout for everything that should happen immediately.
const patience = time.Minute

// start runs a program in a directory of its own.
func start(t *testing.T, dir string, env []string, name string, args ...string) *running {
	t.Helper()
	r := &running{t: t, cmd: exec.Command(name, args...), lines: make(chan string, 1000)}
	r.cmd.Dir = dir
	r.cmd.Env = append(os.Environ(), env...)
	stderr, err := r.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.lines)
		for s := bufio.NewScanner(stderr); s.Scan(); {
			r.lines <- s.Text()
		}
	}()
	t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	return r
}

// expect waits for a line of stderr and returns the pattern's groups.
func (r *running) expect(pattern string) []string {
	r.t.Helper()
	re := regexp.MustCompile(pattern)
	for {
		select {
		case line, more := <-r.lines:
			if !more {
				r.t.Fatalf("no line like %s in:\n%s", pattern, strings.Join(r.seen, "\n"))
			}
			r.seen = append(r.seen, line)
			if m := re.FindStringSubmatch(line); m != nil {
				return m
			}
		case <-time.After(patience):
			r.t.Fatalf("waited in vain for %s after:\n%s", pattern, strings.Join(r.seen, "\n"))
		}
	}
}

func (r *running) signal(s os.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		r.t.Fatal(err)
	}
}

// exits waits for the end and checks the code.
func (r *running) exits(code int) {
	r.t.Helper()
	for line := range r.lines {
		r.seen = append(r.seen, line)
	}
	_ = r.cmd.Wait()
	if got := r.cmd.ProcessState.ExitCode(); got != code {
		r.t.Errorf("exit code %d, want %d, after:\n%s", got, code, strings.Join(r.seen, "\n"))
	}
}

// ports lets the system choose every port, so that tests do not collide.
func ports(more ...string) []string {
	return append([]string{
		"--tcp-address=127.0.0.1:0", "--http-address=127.0.0.1:0", "--lookup-address=127.0.0.1:0", "--cluster-address=127.0.0.1:0",
		"--log-format=text",
	}, more...)
}

func TestSignalDrainsAndExitsWithZero(t *testing.T) {
	for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		r := start(t, t.TempDir(), nil, "brokerd", ports()...)
		r.expect("msg=listening protocol=CLUSTER")
		r.expect("msg=ready")
		r.signal(s)
		r.expect("msg=draining timeout=2m0s")
		r.expect("msg=stopped")
		r.exits(exitOK)
	}
}

func TestSecondSignalAbortsDraining(t *testing.T) {
	r := start(t, t.TempDir(), []string{"FAKE=stubborn"}, "brokerd", append([]string{"serve"}, ports()...)...)
	r.expect("msg=ready")
	r.signal(syscall.SIGTERM)
	r.expect("msg=draining")
	r.signal(syscall.SIGTERM)
	r.expect("drain incomplete")
	r.exits(exitOK)
}

func TestDrainingTimesOut(t *testing.T) {
	r := start(t, t.TempDir(), []string{"FAKE=stubborn"}, "brokerd", ports("--drain-timeout=50ms")...)
	r.expect("msg=ready")
	r.signal(syscall.SIGTERM)
	r.expect("drain incomplete.*deadline exceeded")
	r.exits(exitOK)
}

func TestSignalEndsRecovery(t *testing.T) {
	r := start(t, t.TempDir(), []string{"FAKE=deadlock"}, "brokerd", ports()...)
	r.expect("msg=starting")
	r.signal(syscall.SIGTERM)
	r.exits(exitOK)
}

func TestSecondProcessLearnsLockHolder(t *testing.T) {
	dir := t.TempDir()
	first := start(t, dir, nil, "brokerd", ports("--node-id=one")...)
	first.expect("msg=ready")
	second := start(t, dir, nil, "brokerd", ports("--node-id=two")...)
	second.expect(fmt.Sprintf(`^brokerd: data directory ./brokerd-data is in use by process %d, node one, since 20`, first.cmd.Process.Pid))
	second.exits(exitTemporary)
	first.signal(syscall.SIGTERM)
	first.exits(exitOK)
	third := start(t, dir, nil, "brokerd", ports()...)
	third.expect("msg=ready")
}

func TestFailuresHaveExitCodes(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, fake string
		args       []string
		says       string
		code       int
	}{
		{"disk", "open", nil, "open node: read segment: input/output error", exitDisk},
		{"full", "serve", nil, "serve: no space left on device", exitDisk},
		{"bug", "panic", nil, "BUG: the impossible", exitBug},
		{"port", "", []string{"--http-address=" + taken.Addr().String()}, "http-address: .*address already in use", exitTemporary},
		{"host", "", []string{"--tcp-address=no.such.host.invalid:0"}, "tcp-address: .*no.such.host.invalid", exitConfig},
		{"no such address", "", []string{"--tcp-address=192.0.2.1:0"}, "tcp-address: .*assign requested address", exitConfig},
		{"directory", "", []string{"--data-dir=" + dir + "/file"}, "data directory: .*not a directory", exitDisk},
		{"certificate", "", []string{"--tls-cert=none", "--tls-key=none"}, "tls-cert: open none", exitConfig},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := start(t, t.TempDir(), []string{"FAKE=" + tt.fake}, "brokerd", ports(tt.args...)...)
			r.expect("^brokerd: .*" + tt.says)
			r.exits(tt.code)
		})
	}
}

func TestReloadReportsUnappliedSettings(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "b.toml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("drain_timeout = \"5s\"\n")
	r := start(t, dir, nil, "brokerd", ports("--config", file)...)
	r.expect("msg=ready")
	write("drain_timeout = \"6s\"\nlog_level = \"debug\"\nzone = \"b\"\n")
	r.signal(syscall.SIGHUP)
	r.expect("require a restart.*settings=zone")
	r.expect(`level=DEBUG msg="node reloaded" drain=6s zone=""`)
	r.expect(`configuration reloaded.*changed="drain-timeout log-level"`)
	write("max_conections = 7\n")
	r.signal(syscall.SIGHUP)
	r.expect(`cannot reload configuration.*did you mean max_connections`)
	r.signal(syscall.SIGTERM)
	r.exits(exitOK)
}

func TestExposedAddressIsWarnedOnce(t *testing.T) {
	r := start(t, t.TempDir(), nil, "brokerd", ports("--tcp-address=0.0.0.0:0", "--http-address=0.0.0.0:0")...)
	r.expect(`level=WARN msg="client ports are reachable from other machines.*addresses="\S+:\d+ \S+:\d+"`)
	r.expect("msg=ready")
	r.signal(syscall.SIGTERM)
	r.exits(exitOK)
	if n := strings.Count(strings.Join(r.seen, "\n"), "reachable from"); n != 1 {
		t.Errorf("said %d times", n)
	}
}

// manager is the service manager's end of sd_notify.
type manager struct {
	t    *testing.T
	conn *net.UnixConn
	path string
}

func newManager(t *testing.T) *manager {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &manager{t, conn, path}
}

// expect reads datagrams until one contains the text.
func (m *manager) expect(text string) {
	m.t.Helper()
	var got []string
	buffer := make([]byte, 4096)
	_ = m.conn.SetReadDeadline(time.Now().Add(patience))
	for {
		n, err := m.conn.Read(buffer)
		if err != nil {
			m.t.Fatalf("%v after %q, want %q", err, got, text)
		}
		if got = append(got, string(buffer[:n])); strings.Contains(got[len(got)-1], text) {
			return
		}
	}
}

func TestServiceManagerIsNotified(t *testing.T) {
	m := newManager(t)
	r := start(t, t.TempDir(), []string{"NOTIFY_SOCKET=" + m.path, "WATCHDOG_USEC=60000"}, "brokerd", ports()...)
	m.expect("STATUS=recovering ./brokerd-data\nEXTEND_TIMEOUT_USEC=30000000")
	m.expect("READY=1\nSTATUS=serving all")
	m.expect("WATCHDOG=1\nSTATUS=serving all")
	m.expect("WATCHDOG=1")
	r.signal(syscall.SIGHUP)
	m.expect("RELOADING=1\nMONOTONIC_USEC=")
	m.expect("READY=1")
	r.signal(syscall.SIGTERM)
	m.expect("STOPPING=1\nSTATUS=draining")
	r.exits(exitOK)
}

func TestDeadNodeDoesNotNotifyWatchdog(t *testing.T) {
	m := newManager(t)
	r := start(t, t.TempDir(), []string{"NOTIFY_SOCKET=" + m.path, "WATCHDOG_USEC=30000", "FAKE=dead"}, "brokerd", ports()...)
	r.expect("msg=ready")
	r.expect(`msg="liveness check failed; watchdog not notified" error=stuck`)
	r.expect(`msg="liveness check failed; watchdog not notified" error=stuck`)
	r.signal(syscall.SIGTERM)
	r.exits(exitOK)
	buffer := make([]byte, 4096)
	_ = m.conn.SetReadDeadline(time.Now().Add(time.Millisecond))
	for {
		n, err := m.conn.Read(buffer)
		if err != nil {
			break
		}
		if strings.Contains(string(buffer[:n]), "WATCHDOG=1") {
			t.Error("the watchdog was answered")
		}
	}
}
