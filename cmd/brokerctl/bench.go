package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/words"
	"github.com/brokerd/brokerd/pkg/units"
)

func newBenchCommand(g *globals) *cobra.Command {
	return newGroup("bench", "Measure publish and delivery performance",
		newBenchPubCommand(g), newBenchSubCommand(g), newBenchE2ECommand(g))
}

// minE2EBody is the minimum size of a body that contains the time and the run.
const minE2EBody = 16

// loadOptions define the published load.
type loadOptions struct {
	messages  int64
	duration  time.Duration
	size      units.Size
	batch     int
	window    int
	producers int
	rate      float64
	tcp       []string
}

func (o *loadOptions) addFlags(cmd *cobra.Command, batch, window int) {
	f := cmd.Flags()
	f.Int64Var(&o.messages, "messages", 100_000, "publish `N` messages, unless --duration is set")
	durationVar(f, &o.duration, "duration", "publish for this long")
	o.size = 128
	sizeVar(f, &o.size, "size", "message `SIZE`")
	f.IntVar(&o.batch, "batch", batch, "messages per batch")
	f.IntVar(&o.window, "window", window, "outstanding batches per producer")
	f.IntVar(&o.producers, "producers", 1, "number of publishing connections")
	f.Float64Var(&o.rate, "rate", 0, "total rate in `N` messages per second; 0 means unlimited")
	f.StringArrayVar(&o.tcp, "tcp", nil, "connect to this `HOST:PORT` (default: advertised by the topic's leaders)")
}

func (o *loadOptions) validate(minSize units.Size) error {
	const maxBatch = 100_000
	switch {
	case o.messages < 1 && o.duration == 0:
		return usageError("--messages or --duration must be above 0")
	case o.rate < 0:
		return usageError("--rate must not be below 0")
	case o.size < minSize:
		return usageError("--size must be at least %d", minSize)
	case o.batch < 1 || o.batch > maxBatch:
		return usageError("--batch must be from 1 to %d", maxBatch)
	case o.window < 1 || o.producers < 1:
		return usageError("--window and --producers must be above 0")
	}
	return nil
}

// benchReport is the result of a benchmark. Unmeasured parts are omitted.
type benchReport struct {
	Topic        string       `json:"topic"`
	Channel      string       `json:"channel,omitempty"`
	Publish      *throughput  `json:"publish,omitempty"`
	Consume      *throughput  `json:"consume,omitempty"`
	PubToAck     *percentiles `json:"pub_to_ack,omitempty"`     // of batches
	PubToDeliver *percentiles `json:"pub_to_deliver,omitempty"` // of messages
}

// throughput counts messages. Bytes are those of the bodies.
type throughput struct {
	Messages          int64   `json:"messages"`
	Failed            int64   `json:"failed"`
	Redelivered       int64   `json:"redelivered"`
	Bytes             int64   `json:"bytes"`
	Seconds           float64 `json:"seconds"`
	MessagesPerSecond float64 `json:"messages_per_second"`
	BytesPerSecond    float64 `json:"bytes_per_second"`
}

func newThroughput(c counts, took time.Duration) *throughput {
	t := &throughput{Messages: c.messages, Failed: c.failed, Redelivered: c.redelivered, Bytes: c.bytes, Seconds: took.Seconds()}
	if took > 0 {
		t.MessagesPerSecond = float64(c.messages) / took.Seconds()
		t.BytesPerSecond = float64(c.bytes) / took.Seconds()
	}
	return t
}

func (t throughput) text(did string) string {
	text := fmt.Sprintf("%s %s in %s (%s/s, %s/s)", did, count(t.Messages), latency(time.Duration(t.Seconds*float64(time.Second))),
		metric(t.MessagesPerSecond), words.Size(int64(t.BytesPerSecond)))
	if t.Failed > 0 {
		text += fmt.Sprintf(", %s failed", count(t.Failed))
	}
	if t.Redelivered > 0 {
		text += fmt.Sprintf(", %s of them redelivered", count(t.Redelivered))
	}
	return text
}

// metric formats a rate: 950, 20.0k, 1.25M.
func metric(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.2fM", v/1e6)
	case v >= 1e3:
		return fmt.Sprintf("%.1fk", v/1e3)
	}
	return fmt.Sprintf("%.0f", v)
}

// text formats the report for people.
func (r benchReport) text(p *page) {
	if r.Publish != nil {
		p.line("%s", r.Publish.text("published"))
	}
	if r.Consume != nil {
		p.line("%s", r.Consume.text("consumed"))
	}
	t := newTable("LATENCY", "P50", "P90", "P99", "P99.9", "MAX", "MEAN")
	for _, l := range []struct {
		name string
		of   *percentiles
	}{{"pub→ack", r.PubToAck}, {"pub→deliver", r.PubToDeliver}} {
		if l.of != nil {
			t.row(l.name, latency(l.of.P50), latency(l.of.P90), latency(l.of.P99), latency(l.of.P999), latency(l.of.Max), latency(l.of.Mean))
		}
	}
	p.details(t)
}

// showReport prints a report. Failed messages make the result partial, or a failure if all failed.
func (g *globals) showReport(cmd *cobra.Command, r benchReport, cause error) error {
	if err := g.show(cmd, view{object: r, names: []string{r.Topic}, text: r.text}); err != nil {
		return err
	}
	if r.Publish != nil && r.Publish.Failed > 0 {
		return partial(cmd.Context(), g, cause, plural(r.Publish.Messages, "message")+" acknowledged")
	}
	return nil
}
