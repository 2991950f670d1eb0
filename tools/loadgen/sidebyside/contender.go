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
	"strings"
	"syscall"
	"time"
)

// How long a contender may take to start, and how often it is polled.
const (
	startTimeout = 30 * time.Second
	pollInterval = time.Millisecond
)

// contender is one or more programs with their command lines.
type contender struct {
	name     string
	commands func(dir string) ([][]string, error) // by server, the program first; all data is below dir
	health   []string                             // URLs that answer 200 once it serves
	target   []string                             // loadgen's arguments for it
	slack    time.Duration                        // timer slack of the programs; 0: that of this one
}

// running is a contender at work.
type running struct {
	target  []string
	servers []*server
	ready   time.Duration // from start to the first answer of all
}

// server is one process of a contender.
type server struct {
	cmd *exec.Cmd
	log bytes.Buffer
}

// start starts c on dir and waits until all its servers answer.
func start(ctx context.Context, c contender, dir string) (*running, error) {
	commands, err := c.commands(dir)
	if err != nil {
		return nil, err
	}
	p := &running{target: c.target}
	began := time.Now()
	for _, args := range commands {
		s := &server{cmd: exec.CommandContext(ctx, args[0], args[1:]...)}
		s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
		s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := withSlack(c.slack, s.cmd.Start); err != nil {
			return nil, errors.Join(err, p.kill())
		}
		p.servers = append(p.servers, s)
	}
	for _, url := range c.health {
		if err := answers(ctx, url, began.Add(startTimeout)); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w\n%s", url, err, p.logs()), p.kill())
		}
	}
	p.ready = time.Since(began)
	return p, nil
}

// answers waits until a URL answers 200.
func answers(ctx context.Context, url string, until time.Time) error {
	client := http.Client{Timeout: time.Second}
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for time.Now().Before(until) {
		resp, err := client.Get(url)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("does not answer after %v", startTimeout)
}

// kill ends the processes at once.
func (p *running) kill() error {
	var errs []error
	for _, s := range p.servers {
		errs = append(errs, s.cmd.Process.Signal(syscall.SIGKILL))
		_ = s.cmd.Wait() // it was killed
	}
	return errors.Join(errs...)
}

// logs returns the ends of the servers' logs.
func (p *running) logs() string {
	var b strings.Builder
	for _, s := range p.servers {
		b.Write(last(s.log.Bytes()))
	}
	return b.String()
}

// pids lists the processes, with commas.
func (p *running) pids() string {
	var ids []string
	for _, s := range p.servers {
		ids = append(ids, strconv.Itoa(s.cmd.Process.Pid))
	}
	return strings.Join(ids, ",")
}

// result is what is used of loadgen's output.
type result struct {
	MsgsPerSec    float64 `json:"msgs_per_sec"`
	ServerCPUPerM float64 `json:"server_cpu_sec_per_m"`
	RSSAfterMB    float64 `json:"rss_after_mb"`
	IdleCPU       float64 `json:"idle_cpu_sec_per_sec"`
	MBPerSec      float64 `json:"mb_per_sec"`
	Others        float64 `json:"others_cpu_sec_per_sec"`
	Server        struct {
		RSSMaxMB float64 `json:"rss_max_mb"`
	}
	Lost     int64 `json:"lost"`
	Ack      *latency
	EndToEnd *latency `json:"end_to_end"`
	Late     *latency
}

type latency struct {
	P50  float64 `json:"p50_us"`
	P99  float64 `json:"p99_us"`
	P999 float64 `json:"p999_us"`
	Max  float64 `json:"max_us"`
}

// loadTimeout bounds one load: a server may stop responding permanently.
const loadTimeout = 90 * time.Second

// loadgen runs one workload against a contender.
func (p *running) loadgen(ctx context.Context, program string, args ...string) (result, error) {
	args = append(append(args[:len(args):len(args)], p.target...), "-pids", p.pids())
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return result{}, fmt.Errorf("loadgen %v: %w\n%s", args, err, last(out))
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

// measure measures one load with fresh processes.
func (l load) measure(ctx context.Context, o options, c contender) (m measurement, err error) {
	dir, err := os.MkdirTemp("", "sidebyside")
	if err != nil {
		return m, err
	}
	defer os.RemoveAll(dir)
	p, err := start(ctx, c, dir)
	if err != nil {
		return m, err
	}
	if l.figures != nil {
		r, err := p.loadgen(ctx, o.loadgen, l.args...)
		if err = errors.Join(err, p.kill()); err != nil {
			return m, fmt.Errorf("%w\n%s", err, p.logs())
		}
		return measurement{l.figures(r), r.Others}, nil
	}
	_, err = p.loadgen(ctx, o.loadgen, l.args...)
	if err = errors.Join(err, p.kill()); err != nil {
		return m, err
	}
	if p, err = start(ctx, c, dir); err != nil {
		return m, err
	}
	m.figures = map[string]float64{"to serving, ms": float64(p.ready.Microseconds()) / 1e3}
	return m, p.kill()
}

// last returns the end of a log.
func last(log []byte) []byte { return log[max(0, len(log)-2000):] }
