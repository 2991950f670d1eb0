// Package proc reads what Linux accounts of processes and of the whole machine.
package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const tick = 100 // USER_HZ: jiffies in a second, the same on every Linux

// Usage is what a set of processes used over an interval.
type Usage struct {
	CPUSec     float64 `json:"cpu_sec"`
	UserSec    float64 `json:"user_sec"`
	SysSec     float64 `json:"sys_sec"`
	RSSMaxMB   float64 `json:"rss_max_mb"`  // largest sum seen in the interval
	RSSEndMB   float64 `json:"rss_end_mb"`  // at its end
	WrittenMB  float64 `json:"written_mb"`  // sent towards the storage layer
	CtxSwitchK float64 `json:"ctxswitch_k"` // thousands, voluntary and not
}

// Machine is what the whole machine did over an interval, in CPU-seconds.
type Machine struct {
	Seconds float64 `json:"seconds"` // how long the interval was
	User    float64 `json:"user"`
	Sys     float64 `json:"sys"`
	Idle    float64 `json:"idle"`
	IOWait  float64 `json:"iowait"`
	IRQ     float64 `json:"irq"`
	Steal   float64 `json:"steal"`
	// KThreads is what kernel threads used (writeback, journal, memory
	// reclaim); it is part of Sys.
	KThreads float64 `json:"kthreads"`
	// Busy is all the time in which processors were not idle, the stolen included.
	// The kernel measures it, while User, Sys and IRQ may be counted in ticks,
	// which short runs escape.
	Busy float64 `json:"busy"`

	processors int // online
}

type sample struct {
	user, sys int64
	rssKB     int64
	written   int64
	ctx       int64
}

func read(pid int) (sample, error) {
	var s sample
	dir := "/proc/" + strconv.Itoa(pid)
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return s, err
	}
	// The command name is in parentheses and may hold anything.
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	s.user, _ = strconv.ParseInt(f[11], 10, 64)
	s.sys, _ = strconv.ParseInt(f[12], 10, 64)
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return s, err
	}
	s.rssKB = field(status, "VmRSS:")
	if io, err := os.ReadFile(dir + "/io"); err == nil {
		s.written = field(io, "write_bytes:")
	}
	// Context switches are kept for each thread.
	if tasks, err := os.ReadDir(dir + "/task"); err == nil {
		for _, t := range tasks {
			if b, err := os.ReadFile(dir + "/task/" + t.Name() + "/status"); err == nil {
				s.ctx += field(b, "voluntary_ctxt_switches:") + field(b, "nonvoluntary_ctxt_switches:")
			}
		}
	}
	return s, nil
}

// field returns the number after the line that starts with name.
func field(b []byte, name string) int64 {
	for _, line := range bytes.Split(b, []byte{'\n'}) {
		if bytes.HasPrefix(line, []byte(name)) {
			f := strings.Fields(string(line[len(name):]))
			if len(f) > 0 {
				n, _ := strconv.ParseInt(f[0], 10, 64)
				return n
			}
		}
	}
	return 0
}

func sumOf(pids []int) (sample, error) {
	var t sample
	for _, p := range pids {
		s, err := read(p)
		if err != nil {
			return t, fmt.Errorf("process %d: %w", p, err)
		}
		t.user += s.user
		t.sys += s.sys
		t.rssKB += s.rssKB
		t.written += s.written
		t.ctx += s.ctx
	}
	return t, nil
}

func rssOf(pids []int) (kb int64) {
	for _, p := range pids {
		if b, err := os.ReadFile("/proc/" + strconv.Itoa(p) + "/status"); err == nil {
			kb += field(b, "VmRSS:")
		}
	}
	return kb
}

// RSS returns the memory of the processes together, in MiB.
func RSS(pids []int) (float64, error) {
	s, err := sumOf(pids)
	return float64(s.rssKB) / 1024, err
}

func machine() (Machine, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Machine{}, err
	}
	m := parseStat(b)
	m.KThreads = kthreads()
	return m, nil
}

// parseStat reads the totals of all processors from /proc/stat.
func parseStat(b []byte) Machine {
	f := strings.Fields(string(b[:bytes.IndexByte(b, '\n')]))
	v := func(i int) float64 {
		n, _ := strconv.ParseFloat(f[i], 64)
		return n / tick
	}
	return Machine{
		User: v(1) + v(2), Sys: v(3), Idle: v(4), IOWait: v(5), IRQ: v(6) + v(7), Steal: v(8),
		processors: bytes.Count(b, []byte("\ncpu")),
	}
}

// kthreads is the CPU-seconds of all kernel threads, the children of process 2.
func kthreads() float64 {
	all, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	var n int64
	for _, e := range all {
		if e.Name()[0] < '0' || e.Name()[0] > '9' {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if f[1] != "2" {
			continue
		}
		u, _ := strconv.ParseInt(f[11], 10, 64)
		s, _ := strconv.ParseInt(f[12], 10, 64)
		n += u + s
	}
	return float64(n) / tick
}

// Meter measures from Start to Stop.
type Meter struct {
	pids   []int
	first  sample
	mfirst Machine
	began  time.Time
	stop   chan struct{}
	wg     sync.WaitGroup
	maxKB  int64
}

// Start begins to measure the processes and the machine.
func Start(pids []int) (*Meter, error) {
	m := &Meter{pids: pids, stop: make(chan struct{})}
	var err error
	if m.first, err = sumOf(pids); err != nil {
		return nil, err
	}
	if m.mfirst, err = machine(); err != nil {
		return nil, err
	}
	m.began = time.Now()
	m.maxKB = m.first.rssKB
	m.wg.Add(1)
	go func() {
		defer m.wg.Done()
		t := time.NewTicker(100 * time.Millisecond)
		defer t.Stop()
		for {
			select {
			case <-m.stop:
				return
			case <-t.C:
				m.maxKB = max(m.maxKB, rssOf(pids))
			}
		}
	}()
	return m, nil
}

// Stop ends the measurement.
func (m *Meter) Stop() (Usage, Machine, error) {
	close(m.stop)
	m.wg.Wait()
	s, err := sumOf(m.pids)
	if err != nil {
		return Usage{}, Machine{}, err
	}
	mm, err := machine()
	if err != nil {
		return Usage{}, Machine{}, err
	}
	seconds := time.Since(m.began).Seconds()
	u := Usage{
		UserSec:    float64(s.user-m.first.user) / tick,
		SysSec:     float64(s.sys-m.first.sys) / tick,
		RSSMaxMB:   float64(max(m.maxKB, s.rssKB)) / 1024,
		RSSEndMB:   float64(s.rssKB) / 1024,
		WrittenMB:  float64(s.written-m.first.written) / 1e6,
		CtxSwitchK: float64(s.ctx-m.first.ctx) / 1e3,
	}
	u.CPUSec = u.UserSec + u.SysSec
	f := m.mfirst
	idle, wait := mm.Idle-f.Idle, mm.IOWait-f.IOWait
	return u, Machine{
		Seconds: seconds,
		User:    mm.User - f.User, Sys: mm.Sys - f.Sys, Idle: idle, IOWait: wait, IRQ: mm.IRQ - f.IRQ, Steal: mm.Steal - f.Steal,
		KThreads: max(0, mm.KThreads-f.KThreads), Busy: max(0, float64(mm.processors)*seconds-idle-wait), processors: mm.processors,
	}, nil
}
