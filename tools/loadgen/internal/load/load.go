// Package load holds the workloads. Each is a list of steps, counts only what the broker has
// acknowledged, checks every body it gets back, and fills in one Result.
package load

import (
	"context"
	"fmt"
	"os"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"github.com/brokerd/brokerd/test/steps"
	"github.com/brokerd/brokerd/tools/loadgen/internal/broker"
	"github.com/brokerd/brokerd/tools/loadgen/internal/proc"
)

// Options are the workloads' settings. A workload reads those it needs.
type Options struct {
	Topic    string
	Group    bool // make the consumer group before publishing
	Keep     bool // leave the topic there afterwards
	Size     int  // bytes in a body
	Warmup   time.Duration
	Duration time.Duration
	Pids     []int // the broker's processes

	Producers int
	Sync      bool // each producer waits for each message
	Batch     int  // messages in a batch, where not Sync
	Window    int  // batches in flight to a producer, where not Sync

	Rest time.Duration // after publishing, before memory is measured; 0: it is not

	Rate       float64 // messages a second; 0: as many as Unconsumed allows
	Unconsumed int     // at Rate 0, the most messages published and not received

	Messages int           // size of the backlog
	Settle   time.Duration // pause after filling or creating
	Timeout  time.Duration // the longest a drain may take

	Lead      time.Duration // until the first deferred message is due
	Spread    time.Duration // from the first that is due to the last
	Consumers int           // that hold messages and leave
	Drainers  int           // connections that consume a backlog
	Full      func() error  // is called once all messages are stored, before they are consumed; nil: not called

	Topics      int
	Concurrency int
}

// Latency is in microseconds.
type Latency struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean_us"`
	P50   float64 `json:"p50_us"`
	P90   float64 `json:"p90_us"`
	P99   float64 `json:"p99_us"`
	P999  float64 `json:"p999_us"`
	Max   float64 `json:"max_us"`
}

// Result is what a run found.
type Result struct {
	Workload  string  `json:"workload"`
	Size      int     `json:"size,omitempty"`
	Producers int     `json:"producers,omitempty"`
	Batch     int     `json:"batch,omitempty"`
	Window    int     `json:"window,omitempty"`
	Sync      bool    `json:"sync,omitempty"`
	Rate      float64 `json:"rate,omitempty"`

	Seconds    float64 `json:"seconds"`
	Messages   int64   `json:"messages"`
	MsgsPerSec float64 `json:"msgs_per_sec"`
	MBPerSec   float64 `json:"mb_per_sec"`

	Ack       *Latency `json:"ack,omitempty"`        // publish to acknowledgement, of one message or batch
	EndToEnd  *Latency `json:"end_to_end,omitempty"` // publish to receipt
	FromSched *Latency `json:"from_sched,omitempty"` // the moment it was due to be published, to receipt
	Late      *Latency `json:"late,omitempty"`       // the moment that a deferred message was due, to receipt

	Published int64 `json:"published"` // acknowledged, over the whole run
	Received  int64 `json:"received,omitempty"`
	Lost      int64 `json:"lost,omitempty"` // acknowledged, never received
	Dups      int64 `json:"dups,omitempty"`
	Reordered int64 `json:"reordered,omitempty"`
	// Unacked is the group's backlog after the consumer has disconnected.
	Unacked *int64 `json:"unacked,omitempty"`

	FillPerSec float64 `json:"fill_per_sec,omitempty"`

	Server        *proc.Usage   `json:"server,omitempty"`
	ServerCPUPerM float64       `json:"server_cpu_sec_per_m,omitempty"`
	Client        *proc.Usage   `json:"client,omitempty"`
	Machine       *proc.Machine `json:"machine,omitempty"`
	// Others is the CPU-seconds in a second that neither server, client nor kernel
	// threads have used, at most: some of the interrupts are in it.
	Others float64 `json:"others_cpu_sec_per_sec"`

	RSSBeforeMB   float64 `json:"rss_before_mb,omitempty"`
	RSSAfterMB    float64 `json:"rss_after_mb,omitempty"`
	IdleCPUSec    float64 `json:"idle_cpu_sec_per_sec"`
	IdleBeforeCPU float64 `json:"idle_before_cpu_sec_per_sec"`
}

var base = time.Now()

// clock is nanoseconds on this process's monotonic clock.
func clock() int64 { return int64(time.Since(base)) }

func newHist() *hdr.Histogram { return hdr.New(100, 120e9, 3) }

func record(h *hdr.Histogram, ns int64) { h.RecordValue(min(max(ns, 100), 120e9)) }

func latency(h *hdr.Histogram) *Latency {
	if h.TotalCount() == 0 {
		return nil
	}
	us := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1e3 }
	return &Latency{h.TotalCount(), h.Mean() / 1e3, us(50), us(90), us(99), us(99.9), float64(h.Max()) / 1e3}
}

// meters measures the broker and this process together.
type meters struct{ server, client *proc.Meter }

func startMeters(pids []int) meters {
	return meters{steps.Need(proc.Start(pids)), steps.Need(proc.Start([]int{os.Getpid()}))}
}

func (m meters) stop(r *Result, messages int64) error {
	s, mach, err := m.server.Stop()
	if err != nil {
		return err
	}
	c, _, err := m.client.Stop()
	if err != nil {
		return err
	}
	r.Server, r.Client, r.Machine = &s, &c, &mach
	r.Others = max(0, mach.Busy-mach.KThreads-s.CPUSec-c.CPUSec) / mach.Seconds
	if messages > 0 {
		r.ServerCPUPerM = s.CPUSec / float64(messages) * 1e6
	}
	return nil
}

// withTopic creates the topic, runs a list of steps, and deletes the topic.
func withTopic(ctx context.Context, d broker.Driver, o *Options, list func()) {
	if err := d.Create(ctx, o.Topic, o.Group); err != nil {
		steps.Fail("create %s: %w", o.Topic, err)
	}
	failed := steps.Run(list)
	if !o.Keep {
		if err := d.Delete(context.WithoutCancel(ctx), o.Topic); err != nil && failed == nil {
			failed = fmt.Errorf("delete %s: %w", o.Topic, err)
		}
	}
	steps.Must(failed)
}

func (r *Result) rate(n, ns int64) {
	r.Messages, r.Seconds = n, float64(ns)/1e9
	r.MsgsPerSec = float64(n) / r.Seconds
	r.MBPerSec = r.MsgsPerSec * float64(r.Size) / 1e6
}

// backlogAfter polls until the backlog is empty, for at most 5 s.
func backlogAfter(ctx context.Context, d broker.Driver, topic string) *int64 {
	var n int64
	for range 25 {
		var err error
		if n, err = d.Backlog(ctx, topic); err != nil {
			return nil
		}
		if n == 0 {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	return &n
}
