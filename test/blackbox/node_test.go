package blackbox

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/logtest"
)

// patience bounds everything that is expected to happen soon.
const patience = time.Minute

// programs is the directory of the built programs; set once by TestMain.
var programs string

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

func runAll(m *testing.M) int {
	dir, err := os.MkdirTemp("", "blackbox")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-o", dir, "../../cmd/brokerd", "../../cmd/brokerctl")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	for _, name := range []string{"nsqd", "nsqlookupd"} {
		if err := os.Symlink("brokerd", filepath.Join(dir, name)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	programs = dir
	return m.Run()
}

// node is a program that serves, and its command line, by which it is started
// again on the same data.
type node struct {
	t       testing.TB
	program string
	args    []string
	env     []string
	// descriptors bounds how many the program may have; 0: as many as this one.
	descriptors int
	*process
}

// process is one run of a node.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	ready  chan struct{} // closed when it has said so
	stderr io.Closer     // the reader of its log

	mu        sync.Mutex // guards what follows
	addresses map[string]string
	log       bytes.Buffer
}

// startNode starts a brokerd with a data directory of its own.
func startNode(t testing.TB, args ...string) *node {
	t.Helper()
	return startNodeOn(t, filepath.Join(t.TempDir(), "data"), args...)
}

func startNodeOn(t testing.TB, data string, args ...string) *node {
	t.Helper()
	n := newNode(t, "brokerd", append(nodeArgs(data), args...)...)
	n.start()
	return n
}

// nodeArgs are those of a brokerd with a data directory.
func nodeArgs(data string) []string {
	return []string{
		"--data-dir", data, "--node-id", "n1", "--disk-reserve", "0",
		"--tcp-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0", "--lookup-address", "127.0.0.1:0",
		"--cluster-address", "127.0.0.1:0", "--log-format", "json", "--log-level", "debug",
	}
}

func newNode(t testing.TB, program string, args ...string) *node {
	return &node{t: t, program: program, args: args}
}

// start starts the program and waits until it serves.
func (n *node) start() {
	n.t.Helper()
	n.launch()
	select {
	case <-n.ready:
	case <-n.exited:
		n.t.Fatalf("%s ended instead of serving: %v\n%s", n.program, n.cmd.ProcessState, n.logged())
	case <-time.After(patience):
		n.t.Fatalf("%s does not serve\n%s", n.program, n.logged())
	}
}

// launch starts the program.
func (n *node) launch() {
	n.t.Helper()
	command := append([]string{filepath.Join(programs, n.program)}, n.args...)
	if n.descriptors > 0 {
		command = append([]string{"sh", "-c", `ulimit -n "$0" && exec "$@"`, strconv.Itoa(n.descriptors)}, command...)
	}
	p := &process{
		cmd:       exec.Command(command[0], command[1:]...),
		exited:    make(chan struct{}),
		ready:     make(chan struct{}),
		addresses: map[string]string{},
	}
	p.cmd.Env = append(os.Environ(), n.env...)
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	p.stderr = stderr
	go p.follow(stderr)
	n.process = p
	n.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
		if words := logtest.Doubled(p.logged()); words != "" {
			n.t.Errorf("an error in the log of %s says %q twice", n.program, words)
		}
		if n.t.Failed() {
			n.t.Logf("log of %s, pid %d:\n%s", n.program, p.cmd.Process.Pid, p.logged())
		}
	})
}

// follow reads the log until the program has ended.
func (p *process) follow(stderr io.Reader) {
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l struct{ Msg, Protocol, Address string }
		p.mu.Lock()
		p.log.Write(append(lines.Bytes(), '\n'))
		if json.Unmarshal(lines.Bytes(), &l) == nil && l.Msg == "listening" {
			p.addresses[l.Protocol] = l.Address
		}
		p.mu.Unlock()
		if l.Msg == "ready" {
			close(p.ready)
		}
	}
	_ = p.cmd.Wait()
	close(p.exited)
}

func (p *process) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

func (p *process) address(protocol string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.addresses[protocol]
}

// signal sends a signal and waits for the end; it returns the exit code, -1
// after a kill.
func (n *node) signal(s syscall.Signal) int {
	n.t.Helper()
	if err := n.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		n.t.Fatal(err)
	}
	return n.wait()
}

// wait waits for the end and returns the exit code.
func (n *node) wait() int {
	n.t.Helper()
	select {
	case <-n.exited:
	case <-time.After(patience):
		n.t.Fatalf("%s does not end", n.program)
	}
	return n.cmd.ProcessState.ExitCode()
}

func (n *node) kill() { n.t.Helper(); n.signal(syscall.SIGKILL) }

// stop ends the node in order.
func (n *node) stop() {
	n.t.Helper()
	if code := n.signal(syscall.SIGTERM); code != 0 {
		n.t.Fatalf("exit code %d after SIGTERM\n%s", code, n.logged())
	}
}

// restart ends the node as told and starts it again.
func (n *node) restart(end func()) {
	n.t.Helper()
	end()
	n.start()
}

// reply is an HTTP answer.
type reply struct {
	code   int
	body   string
	header http.Header
}

// http makes a request to the HTTP address, or to another with a full URL.
func (n *node) http(method, path, body string) reply {
	n.t.Helper()
	url := path
	if !strings.Contains(path, "://") {
		url = "http://" + n.address("HTTP") + path
	}
	r, err := httpTo(url, method, body)
	if err != nil {
		n.t.Fatal(err)
	}
	return r
}

func httpTo(url, method, body string) (reply, error) { return httpAs("", url, method, body) }

// httpAs is httpTo with a token, if it is not "".
func httpAs(token, url, method, body string) (reply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	req.Close = true
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, string(b), res.Header}, err
}

// get wants 200 and returns the body.
func (n *node) get(path string) string { n.t.Helper(); return n.want(200, "GET", path, "") }

// post wants 200 and returns the body.
func (n *node) post(path, body string) string { n.t.Helper(); return n.want(200, "POST", path, body) }

func (n *node) want(code int, method, path, body string) string {
	n.t.Helper()
	r := n.http(method, path, body)
	if r.code != code {
		n.t.Fatalf("%s %s: %d %s, want %d", method, path, r.code, r.body, code)
	}
	return r.body
}

// channelStats is what /stats says of a channel.
type channelStats struct {
	Name     string `json:"channel_name"`
	Depth    int64  `json:"depth"`
	InFlight int    `json:"in_flight_count"`
	Deferred int    `json:"deferred_count"`
	Requeued int    `json:"requeue_count"`
	TimedOut int    `json:"timeout_count"`
	Clients  int    `json:"client_count"`
	Paused   bool   `json:"paused"`
}

// topicStats is what /stats says of a topic.
type topicStats struct {
	Name     string         `json:"topic_name"`
	Depth    int64          `json:"depth"`
	Messages int64          `json:"message_count"`
	Paused   bool           `json:"paused"`
	Channels []channelStats `json:"channels"`
}

func (n *node) topics() []topicStats {
	n.t.Helper()
	var s struct{ Topics []topicStats }
	if err := json.Unmarshal([]byte(n.get("/stats?format=json&include_mem=false")), &s); err != nil {
		n.t.Fatal(err)
	}
	return s.Topics
}

func (n *node) topic(name string) (topicStats, bool) {
	n.t.Helper()
	for _, t := range n.topics() {
		if t.Name == name {
			return t, true
		}
	}
	return topicStats{}, false
}

// channel returns the figures of a channel, zero if there is none.
func (n *node) channel(topic, name string) channelStats {
	n.t.Helper()
	t, _ := n.topic(topic)
	for _, c := range t.Channels {
		if c.Name == name {
			return c
		}
	}
	return channelStats{}
}

// eventually asks until ok says yes.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// run runs a program to its end.
func run(t testing.TB, program string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience) // it may restart a whole cluster
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(programs, program), args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if words := logtest.Doubled(errs.String()); words != "" {
		t.Errorf("%s %q says %q twice: %s", program, args, words, &errs)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// try runs brokerctl on a node, and returns its exit code.
func (n *node) try(args ...string) int {
	n.t.Helper()
	code, _, _ := run(n.t, "brokerctl", append(args, "--addr", "http://"+n.address("HTTP"))...)
	return code
}

// ctl runs brokerctl on a node, wants it to end with an exit code, and returns what it prints.
func (n *node) ctl(want int, args ...string) string {
	n.t.Helper()
	code, stdout, stderr := run(n.t, "brokerctl", append(args, "--addr", "http://"+n.address("HTTP"))...)
	if code != want {
		n.t.Fatalf("%q: exit code %d, want %d: %s%s", args, code, want, stdout, stderr)
	}
	return stdout + stderr
}
