package node

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/internal/build"
	"github.com/brokerd/brokerd/internal/complaint"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/otlp"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/trace"
)

// maxSlow is how many slow publishes and deliveries wait to be logged; others are counted.
const maxSlow = 64

// slowOne is a slow publish or delivery.
type slowOne struct {
	kind string
	m    trace.Message
	took time.Duration
}

// tracing notes what happens to traced messages, and logs slow ones.
type tracing struct {
	n        *Node
	store    *trace.Store
	slow     chan slowOne
	omitted  atomic.Uint64
	failures complaint.Book
	spans    *otlp.Exporter // nil: none are sent
	stop     context.CancelFunc
	running  sync.WaitGroup
}

// newTracing opens what the node has noted before, and begins to note.
func newTracing(n *Node) (*tracing, error) {
	o := &n.c.Options
	x := &tracing{n: n, slow: make(chan slowOne, maxSlow)}
	if err := x.sendSpans(); err != nil {
		return nil, err
	}
	to := trace.Options{
		FS: n.disk, Dir: filepath.Join(o.DataDir, "trace"), Bytes: int64(o.Tracing.Bytes),
		Failed: func(err error) {
			x.failures.Log(n.c.Log, slog.LevelWarn, time.Now(), "cannot store all trace events; messages are not affected", "error", err)
		},
		Slow: trace.Slow{Publish: o.Tracing.SlowPublish, Delivery: o.Tracing.SlowDelivery, Report: x.report},
	}
	if x.spans != nil {
		to.Exporter = x.spans
	}
	x.store = trace.Open(to)
	ctx, stop := context.WithCancel(context.WithoutCancel(n.serving))
	x.stop = stop
	x.running.Go(func() { x.store.Run(ctx) })
	x.running.Go(func() { x.logSlow(ctx) })
	return x, nil
}

// sendSpans starts to send spans, if an endpoint is configured.
func (x *tracing) sendSpans() error {
	o := &x.n.c.Options
	if o.Tracing.OTLPEndpoint == "" {
		return nil
	}
	var headers http.Header
	if path := o.Tracing.OTLPHeaders; path != "" {
		text, err := os.ReadFile(path)
		if err == nil {
			headers, err = otlp.ParseHeaders(string(text))
		}
		if err != nil {
			return fmt.Errorf("otlp-headers-file %s: %w", path, err)
		}
	}
	var err error
	x.spans, err = otlp.New(otlp.Options{
		Endpoint: o.Tracing.OTLPEndpoint, Header: headers, Node: o.NodeID, Version: build.Version(), Topic: x.topic,
		Failed: func(err error) {
			x.failures.Log(x.n.c.Log, slog.LevelWarn, time.Now(), "cannot send spans of traced messages; messages are not affected", "error", err)
		},
	})
	if err != nil {
		return fmt.Errorf("otlp-endpoint: %w", err)
	}
	return nil
}

// topic names a topic for spans.
func (x *tracing) topic(incarnation uint64) (otlp.Topic, bool) {
	t, cluster := x.find(incarnation)
	if t == nil {
		return otlp.Topic{}, false
	}
	return otlp.Topic{Name: t.Name, Numbering: seq.NumberingOf(cluster, incarnation)}, true
}

// close stores and sends the recorded events, unless that takes long: nothing waits for a trace.
// Events recorded afterwards are lost.
func (x *tracing) close() {
	x.stop()
	err := closeWithin(stalledClose, func() error {
		x.running.Go(x.spans.Close)
		x.running.Wait()
		return nil
	})
	if err != nil {
		x.n.c.Log.Warn("cannot store the last events of traced messages; messages are not affected", "error", err)
	}
}

// report has a slow message logged. It does not wait.
func (x *tracing) report(kind string, m trace.Message, took time.Duration) {
	select {
	case x.slow <- slowOne{kind, m, took}:
	default:
		x.omitted.Add(1)
	}
}

func (x *tracing) logSlow(ctx context.Context) {
	var book complaint.Book
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-x.slow:
			name, id := x.named(s.m)
			args := []any{"topic", name, "partition", s.m.ID.Partition(), "id", id, "duration", s.took}
			if s.kind == "publish" {
				book.Warn(x.n.c.Log, time.Now(), "slow publish", args...)
			} else {
				book.Warn(x.n.c.Log, time.Now(), "slow delivery", args...)
			}
		}
	}
}

// named returns the topic of a message, and the id by which clients know it.
func (x *tracing) named(m trace.Message) (topic, id string) {
	t, cluster := x.find(m.Incarnation)
	if t == nil {
		return "", ""
	}
	return t.Name, seq.NumberingOf(cluster, m.Incarnation).ID(m.ID).String()
}

// find returns a topic and the id of the cluster; nil: not found, or not known yet.
func (x *tracing) find(incarnation uint64) (t *meta.Topic, cluster string) {
	if x.n.member == nil {
		return nil, ""
	}
	s := x.n.member.Store()
	for _, t := range s.Topics() {
		if t.Incarnation == meta.Incarnation(incarnation) {
			return t, s.View().Cluster().ID
		}
	}
	return nil, ""
}
