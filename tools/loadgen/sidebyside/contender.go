package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// The addresses that a contender serves on while it is measured.
const (
	tcpAddress     = "127.0.0.1:14150"
	httpAddress    = "127.0.0.1:14151"
	clusterAddress = "127.0.0.1:14152"
	startTimeout   = 30 * time.Second
	pollInterval   = time.Millisecond
)

// contender is a program with a command line.
type contender struct {
	name string
	args func(dir string) []string // the program first
}

// contenders lists what is compared; the first is what the others are compared
// with.
func contenders(o options) []contender {
	brokerd := func(sync string) contender {
		return contender{"brokerd, sync=" + sync, func(dir string) []string {
			return []string{
				o.brokerd, "--data-dir", dir, "--sync", sync, "--tcp-address", tcpAddress,
				"--http-address", httpAddress, "--cluster-address", clusterAddress, "--lookup-address", "",
			}
		}}
	}
	return []contender{
		{"nsqd", func(dir string) []string {
			return []string{o.nsqd, "--data-path", dir, "--tcp-address", tcpAddress, "--http-address", httpAddress}
		}},
		brokerd("always"), brokerd("interval"),
	}
}

// process is a contender at work.
type process struct {
	cmd   *exec.Cmd
	log   bytes.Buffer
	ready time.Duration // from start to the first answer
}

// start starts c on dir and waits until it answers.
func start(ctx context.Context, c contender, dir string) (*process, error) {
	args := c.args(dir)
	p := &process{cmd: exec.CommandContext(ctx, args[0], args[1:]...)}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	began := time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	client := http.Client{Timeout: time.Second}
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for time.Since(began) < startTimeout {
		resp, err := client.Get("http://" + httpAddress + "/ping")
		if err == nil {
			resp.Body.Close()
			p.ready = time.Since(began)
			return p, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), p.kill())
		}
	}
	return nil, errors.Join(fmt.Errorf("does not answer after %v", startTimeout), p.kill())
}

// kill ends the process at once.
func (p *process) kill() error {
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	_ = p.cmd.Wait() // it was killed
	return nil
}

// result is what is used of loadgen's output.
type result struct {
	MsgsPerSec    float64 `json:"msgs_per_sec"`
	ServerCPUPerM float64 `json:"server_cpu_sec_per_m"`
	RSSAfterMB    float64 `json:"rss_after_mb"`
	Lost          int64   `json:"lost"`
	Ack           *latency
	EndToEnd      *latency `json:"end_to_end"`
}

type latency struct {
	P50 float64 `json:"p50_us"`
	P99 float64 `json:"p99_us"`
}

// loadgen runs one workload against a process.
func (p *process) loadgen(ctx context.Context, program string, args ...string) (result, error) {
	args = append(args, "-addr", tcpAddress, "-nsq-http", httpAddress, "-pids", strconv.Itoa(p.cmd.Process.Pid))
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return result{}, fmt.Errorf("loadgen %v: %w", args, err)
	}
	var line struct{ Result result }
	if err := json.Unmarshal(out, &line); err != nil {
		return result{}, err
	}
	if line.Result.Lost > 0 {
		return result{}, fmt.Errorf("loadgen %v: %d messages lost", args, line.Result.Lost)
	}
	return line.Result, nil
}

// load is one thing to measure. Its figures are named with their unit.
type load struct {
	name    string
	args    []string
	figures func(result) map[string]float64
}

// loads lists what is measured, in the order of the table.
func loads(o options) []load {
	duration := o.duration.String()
	rate := func(r result) map[string]float64 {
		return map[string]float64{"messages/s": r.MsgsPerSec, "CPU seconds/million": r.ServerCPUPerM}
	}
	return []load{
		{"batched publish", []string{"publish", "-duration", duration}, rate},
		{"16 synchronous producers", []string{"publish", "-sync", "-producers", "16", "-duration", duration}, rate},
		{"backlog", []string{"backlog", "-messages", strconv.Itoa(o.messages)}, rate},
		{"2,000 messages/s", []string{"e2e", "-rate", "2000", "-duration", duration}, func(r result) map[string]float64 {
			return map[string]float64{"median delivery, ms": r.EndToEnd.P50 / 1e3, "p99 delivery, ms": r.EndToEnd.P99 / 1e3}
		}},
		{strconv.Itoa(o.topics) + " idle topics", []string{"topics", "-topics", strconv.Itoa(o.topics), "-duration", "2s"}, func(r result) map[string]float64 {
			return map[string]float64{"memory, MiB": r.RSSAfterMB}
		}},
		{"kill -9 and restart", nil, nil},
	}
}

// measure takes the figures of one load from a fresh process.
func (l load) measure(ctx context.Context, o options, c contender) (figures map[string]float64, err error) {
	dir, err := os.MkdirTemp("", "sidebyside")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	p, err := start(ctx, c, dir)
	if err != nil {
		return nil, err
	}
	if l.args != nil {
		r, err := p.loadgen(ctx, o.loadgen, l.args...)
		if err = errors.Join(err, p.kill()); err != nil {
			return nil, fmt.Errorf("%w\n%s", err, last(p.log.Bytes()))
		}
		return l.figures(r), nil
	}
	_, err = p.loadgen(ctx, o.loadgen, "publish", "-duration", o.duration.String(), "-keep", "-topic", "restart")
	if err = errors.Join(err, p.kill()); err != nil {
		return nil, err
	}
	if p, err = start(ctx, c, dir); err != nil {
		return nil, err
	}
	return map[string]float64{"to serving, ms": float64(p.ready.Microseconds()) / 1e3}, p.kill()
}

// last returns the end of a log.
func last(log []byte) []byte { return log[max(0, len(log)-2000):] }
