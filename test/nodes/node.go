package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
)

// Timeouts and polling intervals of a process.
const (
	stopTimeout  = 30 * time.Second
	pollInterval = 5 * time.Millisecond
	askTimeout   = time.Second
)

// Addresses are the addresses of a node.
type Addresses struct{ TCP, HTTP, Lookup, Cluster string }

// Node is one node of a cluster through all its processes. Start, End, Wipe and Ready must not be
// called concurrently; the rest is safe for concurrent use.
type Node struct {
	Addresses
	ID    string
	Token string   // sent with requests; "": none
	Env   []string // added to the environment

	data, log string
	args      []string // a wrapper, the program, and its flags
	program   int      // index of the program in args
	output    io.Writer

	cmd    *exec.Cmd
	exited chan struct{}
	state  atomic.Int32
}

// State of the last process of a node.
const (
	stopped int32 = iota
	running
	paused
)

// panicked is the exit code of a Go program that panics.
const panicked = 2

// Command describes a node with a command line of its own, whose output goes to the file log.
func Command(id string, at Addresses, log string, args []string) *Node {
	return &Node{Addresses: at, ID: id, log: log, args: args}
}

// Start starts the process and does not wait for it to serve.
func (n *Node) Start() error {
	if err := os.MkdirAll(filepath.Dir(n.log), 0o750); err != nil {
		return err
	}
	log, err := os.OpenFile(n.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	cmd := exec.Command(n.args[0], n.args[1:]...)
	cmd.Stdout = log
	if n.output != nil {
		cmd.Stdout = io.MultiWriter(log, n.output)
	}
	cmd.Stderr = cmd.Stdout
	cmd.Env, cmd.SysProcAttr = append(os.Environ(), n.Env...), Child()
	if err := cmd.Start(); err != nil {
		return errors.Join(err, log.Close())
	}
	exited := make(chan struct{})
	n.cmd, n.exited = cmd, exited
	n.state.Store(running)
	go func() {
		_ = cmd.Wait() // how it ended is read from ProcessState
		_ = log.Close()
		n.state.Store(stopped)
		close(exited)
	}()
	return nil
}

// Install has later processes of the node run another program.
func (n *Node) Install(program string) { n.args[n.program] = program }

// Move has later processes of the node use other addresses. It must not be called concurrently with any other method.
func (n *Node) Move(to Addresses) {
	for i, arg := range n.args {
		switch arg {
		case "--tcp-address":
			n.args[i+1] = to.TCP
		case "--http-address":
			n.args[i+1] = to.HTTP
		case "--lookup-address":
			n.args[i+1] = to.Lookup
		case "--cluster-address":
			n.args[i+1] = to.Cluster
		}
	}
	n.Addresses = to
}

// Running reports whether there is a process that is not paused.
func (n *Node) Running() bool { return n.state.Load() == running }

// Exited is closed once the last process has ended.
func (n *Node) Exited() <-chan struct{} { return n.exited }

// How returns how the last process ended.
func (n *Node) How() string { return n.cmd.ProcessState.String() }

// Crashed reports whether the last process ended by a panic.
func (n *Node) Crashed() bool {
	select {
	case <-n.exited:
		return n.cmd.ProcessState.ExitCode() == panicked
	default:
		return false
	}
}

// Ready waits until the node reports that it serves as a member of the cluster.
func (n *Node) Ready(ctx context.Context) error {
	client := http.Client{Timeout: askTimeout}
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if n.answers(ctx, &client) {
			return nil
		}
		select {
		case <-tick.C:
		case <-n.exited:
			return fmt.Errorf("node %s has ended: %s\n%s", n.ID, n.How(), n.LogEnd())
		case <-ctx.Done():
			return &Late{fmt.Errorf("node %s is not ready: %w\n%s", n.ID, context.Cause(ctx), n.LogEnd())}
		}
	}
}

func (n *Node) answers(ctx context.Context, client *http.Client) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.HTTP+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// Pause stops the process as SIGSTOP does, Resume lets it continue.
func (n *Node) Pause() error {
	n.state.CompareAndSwap(running, paused)
	return n.cmd.Process.Signal(syscall.SIGSTOP)
}

// Resume ends a Pause.
func (n *Node) Resume() error {
	n.state.CompareAndSwap(paused, running)
	return n.cmd.Process.Signal(syscall.SIGCONT)
}

// Reload makes the process read its configuration and certificates again.
func (n *Node) Reload() error { return n.cmd.Process.Signal(syscall.SIGHUP) }

// End signals the process and waits for its end. It returns an error if the process had to be
// killed, or had already exited.
func (n *Node) End(sig syscall.Signal) error {
	select {
	case <-n.exited:
		return fmt.Errorf("node %s had exited on its own: %s\n%s", n.ID, n.How(), n.LogEnd())
	default:
	}
	if err := n.cmd.Process.Signal(sig); err != nil {
		return err
	}
	select {
	case <-n.exited:
		return nil
	case <-time.After(stopTimeout):
		_ = n.cmd.Process.Kill() // it may end just now
		<-n.exited
		return fmt.Errorf("node %s did not end within %v of %v\n%s", n.ID, stopTimeout, sig, n.LogEnd())
	}
}

// Stop ends the process as an operator does: it must exit with 0.
func (n *Node) Stop() error {
	if err := n.End(syscall.SIGTERM); err != nil {
		return err
	}
	if code := n.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("node %s ended with %d after SIGTERM\n%s", n.ID, code, n.LogEnd())
	}
	return nil
}

// Pid is the last process.
func (n *Node) Pid() int { return n.cmd.Process.Pid }

// Data is the directory of all that the node keeps.
func (n *Node) Data() string { return n.data }

// Wipe removes all that the node keeps, as a new disk does. It must not run.
func (n *Node) Wipe() error { return os.RemoveAll(n.data) }

// logEnd is how much of a log is shown.
const logEnd = 6000

// Log is the file with the output of the processes.
func (n *Node) Log() string { return n.log }

// LogEnd returns the last lines of the output.
func (n *Node) LogEnd() string {
	f, err := os.Open(n.log)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > logEnd {
		_, _ = f.Seek(-logEnd, io.SeekEnd) // else it is shown from the start
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("the log of %s ends:\n%s", n.ID, text)
}
