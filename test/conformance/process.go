package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Timeouts for a broker to start and to stop.
const (
	startTimeout = 15 * time.Second
	stopTimeout  = 15 * time.Second
	pollInterval = 20 * time.Millisecond
)

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

// server is a running broker.
type server struct {
	cmd    *exec.Cmd
	log    bytes.Buffer // complete once exited is closed
	exited chan struct{}
}

// serve starts the broker under the given name and returns when its HTTP address responds. The
// name selects the program: a link to brokerd named nsqd accepts nsqd's command line.
func serve(e env, name, httpAddress string, ports []string, args ...string) (*server, error) {
	for _, p := range ports {
		if err := mustBeFree(p); err != nil {
			return nil, err
		}
	}
	bin, err := standIn(e, name)
	if err != nil {
		return nil, err
	}
	s := &server{exited: make(chan struct{})}
	s.cmd = command(e.ctx, e.scratch, &s.log, bin, args...)
	s.cmd.Env = append(os.Environ(), e.variables()...)
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = s.cmd.Wait() // its failure shows in the suite
		close(s.exited)
	}()
	if err := s.ready(e.ctx, httpAddress); err != nil {
		_, stopErr := s.stop()
		return nil, fmt.Errorf("%w\n%s", errors.Join(err, stopErr), tail(s.log.Bytes()))
	}
	return s, nil
}

// standIn links name to the broker in a directory of its own and returns the link.
func standIn(e env, name string) (string, error) {
	dir := filepath.Join(e.scratch, "bin")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	link := filepath.Join(dir, name)
	err := os.Symlink(e.broker, link)
	if errors.Is(err, os.ErrExist) {
		err = nil
	}
	return link, err
}

// mustBeFree refuses a port that something else serves: a suite would test that.
func mustBeFree(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("the suite needs %s free: %w", address, err)
	}
	return l.Close()
}

// ready waits until the broker answers on its HTTP address.
func (s *server) ready(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	client := http.Client{Timeout: time.Second}
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if resp, err := client.Get("http://" + address + "/ping"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-s.exited:
			return errors.New("the broker has exited")
		case <-ctx.Done():
			return errors.New("the broker does not answer /ping")
		}
	}
}

// stop stops the broker cleanly, or kills it after a timeout, and returns the end of its log.
func (s *server) stop() (string, error) {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return "", err
	}
	var err error
	select {
	case <-s.exited:
		if code := s.cmd.ProcessState.ExitCode(); code != 0 {
			err = fmt.Errorf("the broker ended with %s", s.cmd.ProcessState)
		}
	case <-time.After(stopTimeout):
		err = errors.New("the broker does not stop")
		_ = s.cmd.Cancel() // it may have ended just now
		<-s.exited
	}
	return tail(s.log.Bytes()), err
}

// tail returns the last lines of a log, for a message.
func tail(log []byte) string {
	const most = 4000
	if len(log) > most {
		log = log[len(log)-most:]
	}
	return string(log)
}
