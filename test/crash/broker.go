package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// broker is the program under test: the same command line at every start.
type broker struct {
	program   string
	args      []string
	tcp, http string
	log       string

	cmd     *exec.Cmd
	exited  chan struct{}
	started time.Time

	slowest time.Duration // from start to serving
}

// newBroker chooses free ports and a command line. All data is stored below dir.
func newBroker(program, dir string) (*broker, error) {
	program, err := filepath.Abs(program)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("no broker to test (make build): %w", err)
	}
	ports, err := freeAddresses(3)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(data, 0o750); err != nil {
		return nil, err
	}
	b := &broker{program: program, tcp: ports[0], http: ports[1], log: filepath.Join(dir, "log")}
	b.args = []string{
		"--data-dir", data, "--tcp-address", b.tcp, "--http-address", b.http,
		"--cluster-address", ports[2], "--lookup-address", "",
	}
	if base := filepath.Base(program); len(base) >= 4 && base[:4] == "nsqd" {
		b.args = []string{"--data-path", data, "--tcp-address", b.tcp, "--http-address", b.http}
	}
	return b, nil
}

// freeAddresses finds n loopback addresses that nothing listens on.
func freeAddresses(n int) ([]string, error) {
	var found []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // all at the end, so that all differ
		found = append(found, l.Addr().String())
	}
	return found, nil
}

// start starts the process and does not wait for it to serve.
func (b *broker) start() error {
	log, err := os.OpenFile(b.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own
	b.cmd = exec.Command(b.program, b.args...)
	b.cmd.Stdout, b.cmd.Stderr = log, log
	// If this program dies, the broker is killed.
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	b.started = time.Now()
	if err := b.cmd.Start(); err != nil {
		return err
	}
	cmd, exited := b.cmd, make(chan struct{})
	b.exited = exited
	go func() {
		_ = cmd.Wait() // how it ended is read from ProcessState
		close(exited)
	}()
	return nil
}

// serving waits until the broker accepts connections.
func (b *broker) serving(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, serveTimeout)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := net.DialTimeout("tcp", b.tcp, time.Second)
		if err == nil {
			b.slowest = max(b.slowest, time.Since(b.started))
			return c.Close()
		}
		select {
		case <-tick.C:
		case <-b.exited:
			return fmt.Errorf("the broker has exited: %s", b.cmd.ProcessState)
		case <-ctx.Done():
			return fmt.Errorf("the broker does not serve: %w", ctx.Err())
		}
	}
}

// end signals the process and waits for its end.
func (b *broker) end(sig syscall.Signal) error {
	select {
	case <-b.exited:
		return fmt.Errorf("the broker had exited on its own: %s", b.cmd.ProcessState)
	default:
	}
	if err := b.cmd.Process.Signal(sig); err != nil {
		return err
	}
	select {
	case <-b.exited:
		return nil
	case <-time.After(serveTimeout):
		_ = b.cmd.Process.Kill() // it may end just now
		<-b.exited
		return fmt.Errorf("the broker did not end after %v", sig)
	}
}

// terminate stops the last process as an operator does: it must exit with 0.
func (b *broker) terminate() error {
	if b.cmd == nil || b.cmd.ProcessState != nil {
		return nil
	}
	if err := b.end(syscall.SIGTERM); err != nil {
		return err
	}
	if code := b.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("after SIGTERM the broker exited with %d", code)
	}
	return nil
}

// unfinished asks the broker how many messages its channels still have.
func (b *broker) unfinished(ctx context.Context, topic string) (int, error) {
	u := "http://" + b.http + "/stats?format=json&include_clients=false&topic=" + url.QueryEscape(topic)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return 0, err
	}
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var stats struct {
		Topics []struct {
			Depth    int
			Channels []struct {
				Depth         int
				InFlightCount int `json:"in_flight_count"`
				DeferredCount int `json:"deferred_count"`
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&stats); err != nil {
		return 0, err
	}
	if len(stats.Topics) != 1 || len(stats.Topics[0].Channels) != len(channels) {
		return 0, errors.New("the broker's stats lack the topic or a channel")
	}
	n := stats.Topics[0].Depth
	for _, c := range stats.Topics[0].Channels {
		n += c.Depth + c.InFlightCount + c.DeferredCount
	}
	return n, nil
}
