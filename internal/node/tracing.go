package node

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/internal/complaint"
	"github.com/brokerd/brokerd/pkg/meta"
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
	untold   atomic.Uint64
	failures complaint.Book
	stop     context.CancelFunc
	running  sync.WaitGroup
}

// newTracing opens what the node has noted before, and begins to note.
func newTracing(n *Node) *tracing {
	o := &n.c.Options
	x := &tracing{n: n, slow: make(chan slowOne, maxSlow)}
	x.store = trace.Open(trace.Options{
		FS: n.disk, Dir: filepath.Join(o.DataDir, "trace"), Bytes: int64(o.Tracing.Bytes),
		Failed: func(err error) {
			x.failures.Tell(n.c.Log, slog.LevelWarn, time.Now(), "cannot keep all events of traced messages; messages are not affected", "error", err)
		},
		Slow: trace.Slow{Publish: o.Tracing.SlowPublish, Delivery: o.Tracing.SlowDelivery, Report: x.report},
	})
	ctx, stop := context.WithCancel(context.WithoutCancel(n.serving))
	x.stop = stop
	x.running.Go(func() { x.store.Run(ctx) })
	x.running.Go(func() { x.logSlow(ctx) })
	return x
}

// close stores what was noted. What is noted afterwards is lost.
func (x *tracing) close() {
	x.stop()
	x.running.Wait()
}

// report has a slow message logged. It does not wait.
func (x *tracing) report(kind string, m trace.Message, took time.Duration) {
	select {
	case x.slow <- slowOne{kind, m, took}:
	default:
		x.untold.Add(1)
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
			book.Warn(x.n.c.Log, time.Now(), "slow "+s.kind, "topic", name, "partition", s.m.ID.Partition(), "id", id, "duration", s.took)
		}
	}
}

// named returns the topic of a message, and the id by which clients know it.
func (x *tracing) named(m trace.Message) (topic, id string) {
	if x.n.member == nil {
		return "", ""
	}
	s := x.n.member.Store()
	for _, t := range s.Topics() {
		if t.Incarnation == meta.Incarnation(m.Incarnation) {
			return t.Name, seq.NumberingOf(s.View().Cluster().ID, m.Incarnation).ID(m.ID).String()
		}
	}
	return "", ""
}
