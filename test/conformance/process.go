package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/brokerd/brokerd/test/nodes"
	"github.com/brokerd/brokerd/test/steps"
)

// The addresses of the broker, which the suites expect of nsqd.
const (
	tcpAddress  = "127.0.0.1:4150"
	httpAddress = "127.0.0.1:4151"
)

// startTimeout is how long a broker may take to start.
const startTimeout = 15 * time.Second

// command returns a command that is killed, with its child processes, when ctx ends. Its output is
// written to out.
func command(ctx context.Context, dir string, out *bytes.Buffer, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	return cmd
}

// capture runs a command and returns its standard output.
func capture(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	var out, errs bytes.Buffer
	cmd := command(ctx, dir, &errs, name, args...)
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %v: %w\n%s", name, args, err, errs.Bytes())
	}
	return out.Bytes(), nil
}

// serve starts the broker under the given name and returns when its HTTP address responds. The
// name selects the program: a link to brokerd named nsqd accepts nsqd's command line.
func serve(e env, name string, args ...string) *nodes.Node {
	steps.Must(errors.Join(mustBeFree(tcpAddress), mustBeFree(httpAddress)))
	n := nodes.Command(name, nodes.Addresses{TCP: tcpAddress, HTTP: httpAddress}, filepath.Join(e.scratch, name+".log"), append([]string{standIn(e, name)}, args...))
	n.Env = e.variables()
	steps.Must(n.Start())
	limited, cancel := context.WithTimeout(e.ctx, startTimeout)
	defer cancel()
	if err := n.Ready(limited); err != nil {
		steps.Must(errors.Join(err, n.Stop()))
	}
	return n
}

// serveNSQD starts the stand-in for nsqd with a directory for its data.
func serveNSQD(e env, data string, flags ...string) *nodes.Node {
	steps.Must(os.MkdirAll(data, 0o755))
	return serve(e, "nsqd", append([]string{"--tcp-address=" + tcpAddress, "--http-address=" + httpAddress, "--data-path=" + data}, flags...)...)
}

// standIn links name to the broker in a directory of its own and returns the link.
func standIn(e env, name string) string {
	dir := filepath.Join(e.scratch, "bin")
	steps.Must(os.MkdirAll(dir, 0o755))
	link := filepath.Join(dir, name)
	if err := os.Symlink(e.broker, link); !errors.Is(err, os.ErrExist) {
		steps.Must(err)
	}
	return link
}

// mustBeFree refuses a port that something else serves: a suite would test that.
func mustBeFree(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("the suite needs %s free: %w", address, err)
	}
	return l.Close()
}

// tail returns the last lines of a log, for a message.
func tail(log []byte) string {
	const most = 4000
	if len(log) > most {
		log = log[len(log)-most:]
	}
	return string(log)
}
