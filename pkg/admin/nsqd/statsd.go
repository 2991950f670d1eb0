package nsqd

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/brokerd/brokerd/internal/latency"
	"github.com/brokerd/brokerd/pkg/admin/nsqform"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/stats"
)

// statsdDial limits how long the address of a statsd server is looked up.
const statsdDial = time.Second

// StatsdOptions define the statistics pushed to statsd, and the address.
type StatsdOptions struct {
	Address string // host:port, over UDP
	// Prefix is the prefix of every name; %s is replaced by the node's broadcast address and HTTP
	// port, with _ for . and :.
	Prefix     string
	Interval   time.Duration
	Memory     bool // push the figures of the process's memory, too
	PacketSize int  // maximum size of a packet; a longer line is sent alone
	// NoEphemeral leaves out ephemeral topics and channels.
	NoEphemeral bool

	Figures  Figures // how depths and latencies are converted to the form of nsqd
	Identity nsqform.Identity
	// Topics describes the topics with partitions that this node leads.
	Topics func() []stats.Topic
	// Dial connects to the address; nil: over UDP.
	Dial   func(ctx context.Context, address string) (io.WriteCloser, error)
	Logger *slog.Logger
}

// Statsd pushes the figures of a node to a statsd, under the names that nsqd gives
// them. Its methods are for one goroutine.
type Statsd struct {
	o      StatsdOptions
	prefix string
	last   map[string]uint64 // values of counters at the last push
	lines  []byte
	failed bool // the last push failed, which is logged once
}

// NewStatsd returns a Statsd that has pushed nothing.
func NewStatsd(o StatsdOptions) *Statsd {
	host := net.JoinHostPort(o.Identity.BroadcastAddress, strconv.Itoa(o.Identity.HTTPPort))
	prefix := strings.ReplaceAll(o.Prefix, "%s", strings.NewReplacer(".", "_", ":", "_").Replace(host))
	if prefix != "" && !strings.HasSuffix(prefix, ".") {
		prefix += "."
	}
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, address string) (io.WriteCloser, error) {
			return (&net.Dialer{Timeout: statsdDial}).DialContext(ctx, "udp", address)
		}
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Statsd{o: o, prefix: prefix, last: map[string]uint64{}}
}

// Run pushes at every interval until ctx ends.
func (s *Statsd) Run(ctx context.Context) {
	tick := time.NewTicker(s.o.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := s.push(ctx)
		if err != nil && !s.failed {
			s.o.Logger.Warn("cannot push statistics to statsd; retrying at each interval", "address", s.o.Address, "error", err)
		}
		s.failed = err != nil
	}
}

// push sends everything once.
func (s *Statsd) push(ctx context.Context) error {
	to, err := s.o.Dial(ctx, s.o.Address)
	if err != nil {
		return err
	}
	s.collect()
	err = s.send(to)
	if closed := to.Close(); err == nil {
		err = closed
	}
	return err
}

// collect writes the lines of a push. Counters that no longer exist are removed.
func (s *Statsd) collect() {
	s.lines = s.lines[:0]
	before := s.last
	s.last = make(map[string]uint64, len(before))
	for _, t := range s.o.Topics() {
		if s.o.NoEphemeral && meta.IsEphemeral(t.Name) {
			continue
		}
		name := "topic." + t.Name + "."
		s.count(before, name+"message_count", t.Messages)
		s.count(before, name+"message_bytes", t.Bytes)
		s.gauge(name+"depth", t.Depth)
		s.gauge(name+"backend_depth", s.o.Figures.beyond(t.Depth))
		s.latency(name, topicLatency(&t))
		for _, c := range t.Channels {
			if !s.o.NoEphemeral || !meta.IsEphemeral(c.Name) {
				s.channel(before, name+"channel."+c.Name+".", &c)
			}
		}
	}
	if s.o.Memory {
		s.memory(before, readMemory())
	}
}

func (s *Statsd) channel(before map[string]uint64, name string, c *stats.Channel) {
	s.count(before, name+"message_count", c.MessagesTotal)
	s.gauge(name+"depth", c.Depth)
	s.gauge(name+"backend_depth", s.o.Figures.beyond(c.Depth))
	s.gauge(name+"in_flight_count", c.InFlight)
	s.gauge(name+"deferred_count", c.Deferred)
	s.count(before, name+"requeue_count", c.RequeuedTotal)
	s.count(before, name+"timeout_count", c.TimedOutTotal)
	s.gauge(name+"clients", int64(c.Consumers))
	s.latency(name, c.Latency)
}

func (s *Statsd) latency(name string, h *latency.Histogram) {
	for _, p := range s.o.Figures.latency(h).Percentiles {
		s.gauge(fmt.Sprintf("%se2e_processing_latency_%.0f", name, 100*p.Quantile), p.Value)
	}
}

func (s *Statsd) memory(before map[string]uint64, m *nsqMemory) {
	for _, g := range m.gauges() {
		s.gauge("mem."+g.name, int64(g.value))
	}
	s.count(before, "mem.gc_runs", uint64(m.GCRuns))
}

func (s *Statsd) gauge(name string, value int64) {
	s.lines = fmt.Appendf(s.lines, "%s%s:%d|g\n", s.prefix, name, value)
}

// count writes how much a counter has grown since the last push. One that is smaller
// has begun again.
func (s *Statsd) count(before map[string]uint64, name string, value uint64) {
	s.last[name] = value
	was := before[name]
	if value < was {
		was = 0
	}
	s.lines = fmt.Appendf(s.lines, "%s%s:%d|c\n", s.prefix, name, value-was)
}

// send writes the lines in packets, each of whole lines.
func (s *Statsd) send(to io.Writer) error {
	for rest := s.lines; len(rest) > 0; {
		n := len(rest)
		if n > s.o.PacketSize {
			n = bytes.LastIndexByte(rest[:s.o.PacketSize], '\n') + 1
			if n == 0 {
				n = bytes.IndexByte(rest, '\n') + 1
			}
		}
		if _, err := to.Write(rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}
