package nsqd

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/latency"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/admin/nsqform"
	"github.com/brokerd/brokerd/pkg/stats"
)

// packets is a statsd that keeps its packets.
type packets struct {
	got    []string
	closed int
	fail   atomic.Bool
}

func (p *packets) Write(b []byte) (int, error) { p.got = append(p.got, string(b)); return len(b), nil }
func (p *packets) Close() error                { p.closed++; return nil }
func (p *packets) dial(context.Context, string) (io.WriteCloser, error) {
	if p.fail.Load() {
		return nil, errors.New("nobody there")
	}
	return p, nil
}

func statsdOf(p *packets, topics func() []stats.Topic) StatsdOptions {
	return StatsdOptions{
		Address: "s:8125", Prefix: "nsq.%s", Interval: time.Minute, PacketSize: 508,
		Identity: nsqform.Identity{BroadcastAddress: "10.0.0.1", HTTPPort: 4151}, Topics: topics, Dial: p.dial,
	}
}

func TestStatsdHasTheNamesOfNsqd(t *testing.T) {
	now := []stats.Topic{{
		Name: "t", Messages: 5, Bytes: 50, Depth: 1,
		Channels: []stats.Channel{
			{Name: "c", ChannelCounts: api.ChannelCounts{MessagesTotal: 4, Depth: 2, InFlight: 3, Deferred: 6, RequeuedTotal: 7, TimedOutTotal: 8}, Consumers: 9},
			{Name: "x#ephemeral"},
		},
	}, {Name: "e#ephemeral"}}
	p := &packets{}
	o := statsdOf(p, func() []stats.Topic { return now })
	o.NoEphemeral, o.Figures.MemQueueSize = true, 1
	s := NewStatsd(o)
	push := func() []string {
		p.got = nil
		if err := s.push(t.Context()); err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSuffix(strings.Join(p.got, ""), "\n"), "\n")
	}
	const topic, channel = "nsq.10_0_0_1_4151.topic.t.", "nsq.10_0_0_1_4151.topic.t.channel.c."
	want := []string{
		topic + "message_count:5|c", topic + "message_bytes:50|c", topic + "depth:1|g", topic + "backend_depth:0|g",
		channel + "message_count:4|c", channel + "depth:2|g", channel + "backend_depth:1|g", channel + "in_flight_count:3|g",
		channel + "deferred_count:6|g", channel + "requeue_count:7|c", channel + "timeout_count:8|c", channel + "clients:9|g",
	}
	if got := push(); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, packet := range p.got {
		if len(packet) > o.PacketSize || !strings.HasSuffix(packet, "\n") {
			t.Errorf("a packet of %d bytes: %q", len(packet), packet)
		}
	}
	if len(p.got) != 2 {
		t.Errorf("%d packets", len(p.got))
	}
	now[0].Messages, now[0].Bytes = 8, 20 // one grew, the other was reset
	if got := push(); got[0] != topic+"message_count:3|c" || got[1] != topic+"message_bytes:20|c" {
		t.Errorf("second push: %v", got[:2])
	}
	s.o.Figures.Quantiles = []float64{0.999, 0.5}
	now[0].Channels[0].Latency = new(latency.Histogram)
	now[0].Channels[0].Latency.Record(10 * time.Microsecond)
	for _, name := range []string{topic, channel} {
		for _, part := range []string{"100", "50"} {
			if line := name + "e2e_processing_latency_" + part + ":9728|g"; !slices.Contains(push(), line) {
				t.Errorf("no %s", line)
			}
		}
	}
	s.o.NoEphemeral, s.o.Memory, s.o.PacketSize = false, true, 10
	got := push()
	for _, line := range []string{"topic.e#ephemeral.depth:0|g", "topic.t.channel.x#ephemeral.clients:0|g"} {
		if !slices.Contains(got, "nsq.10_0_0_1_4151."+line) {
			t.Errorf("no %s", line)
		}
	}
	for _, name := range []string{"heap_objects", "gc_pause_usec_100", "next_gc_bytes", "gc_runs"} {
		if !slices.ContainsFunc(got, func(l string) bool { return strings.HasPrefix(l, "nsq.10_0_0_1_4151.mem."+name+":") }) {
			t.Errorf("no memory figure %s", name)
		}
	}
	if len(p.got) != len(got) {
		t.Errorf("%d packets of %d long lines", len(p.got), len(got))
	}
}

// TestBackendDepthIsDepthBeyondMemory: monitors of nsqd read it that way.
func TestBackendDepthIsDepthBeyondMemory(t *testing.T) {
	for depth, want := range map[int64]int64{0: 0, 10: 0, 11: 1} {
		got := (&Figures{MemQueueSize: 10}).nsqTopics([]stats.Topic{{Name: "t", Depth: depth, Channels: []stats.Channel{{Name: "c", ChannelCounts: api.ChannelCounts{Depth: depth}}}}}, "", false)[0]
		if got.BackendDepth != want || got.Channels[0].BackendDepth != want || got.Depth != depth {
			t.Errorf("depth %d: %+v", depth, got)
		}
	}
}

func TestStatsdIsPushedAtEveryInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &packets{}
		s := NewStatsd(statsdOf(p, func() []stats.Topic { return []stats.Topic{{Name: "t"}} }))
		p.fail.Store(true)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { s.Run(ctx); close(ended) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		p.fail.Store(false)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		cancel()
		<-ended
		if len(p.got) != 2 || p.closed != 2 {
			t.Errorf("%d packets, %d connections closed", len(p.got), p.closed)
		}
	})
}
