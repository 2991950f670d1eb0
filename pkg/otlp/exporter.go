package otlp

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"github.com/brokerd/brokerd/pkg/trace"
)

const (
	// maxEvents is how many events wait to become spans.
	maxEvents = 16 << 10
	// batchSpans is how many spans are sent at once, at the most, and maxBatches how many
	// such batches wait to be sent.
	batchSpans, maxBatches = 512, 32
	// batchDelay is how long a span waits for others.
	batchDelay = time.Second
	// closeTime is how long closing may take while the collector answers.
	closeTime = time.Second
)

// Options configure an Exporter.
type Options struct {
	Endpoint string      // see ParseEndpoint
	Header   http.Header // sent with each request; may be nil
	Node     string      // the id of this node
	Version  string      // of this program
	// Topic names a topic by its incarnation. It is called by one goroutine.
	Topic func(incarnation uint64) (Topic, bool)
	// Failed, if set, is called with the reason when spans were lost or are late. It is called
	// by one goroutine, once for each request that failed.
	Failed func(error)
	// Transport is what sends requests. nil: http.DefaultTransport's settings.
	Transport http.RoundTripper
}

// Stats are the figures of an Exporter.
type Stats struct {
	Enabled  bool
	Sent     uint64 // spans that the collector took
	Rejected uint64 // spans that the collector refused for good
	Unsent   uint64 // spans that were dropped since the collector did not take them in time
	Missed   uint64 // events that were dropped before they became spans
	Waiting  int    // spans that wait to be sent
}

// Exporter sends spans. It implements trace.Exporter. Its methods may be called by many
// goroutines; those of nil do nothing.
type Exporter struct {
	o       Options
	url     string
	events  chan trace.Exported
	batches chan []*tracepb.Span
	quit    chan struct{}
	closing sync.Once
	done    chan struct{}
	sender  sender

	sent, rejected, unsent, missed atomic.Uint64
	waiting                        atomic.Int64
}

// New starts an Exporter. It does not speak to the collector yet: one that cannot be reached
// is no error.
func New(o Options) (*Exporter, error) {
	url, err := ParseEndpoint(o.Endpoint)
	if err != nil {
		return nil, err
	}
	if o.Topic == nil {
		return nil, errors.New("no names of topics")
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	x := &Exporter{
		o: o, url: url,
		events: make(chan trace.Exported, maxEvents), batches: make(chan []*tracepb.Span, maxBatches),
		quit: make(chan struct{}), done: make(chan struct{}),
	}
	x.sender = newSender(x)
	go x.build()
	go x.send()
	return x, nil
}

// Export implements trace.Exporter: it takes an event, or drops it.
func (x *Exporter) Export(e trace.Exported) {
	if x == nil {
		return
	}
	select {
	case x.events <- e:
	default:
		x.missed.Add(1)
	}
}

// Stats returns the figures.
func (x *Exporter) Stats() Stats {
	if x == nil {
		return Stats{}
	}
	return Stats{
		Enabled: true, Sent: x.sent.Load(), Rejected: x.rejected.Load(), Unsent: x.unsent.Load(), Missed: x.missed.Load(),
		Waiting: int(x.waiting.Load()),
	}
}

// Close sends what is known, for a second at the most, and not at all to a collector that
// does not answer. What is exported afterwards is dropped.
func (x *Exporter) Close() {
	if x == nil {
		return
	}
	x.closing.Do(func() { close(x.quit) })
	<-x.done
}

// build makes batches of spans until the exporter is closed.
func (x *Exporter) build() {
	defer close(x.batches)
	var batch []*tracepb.Span
	hand := func() {
		if len(batch) == 0 {
			return
		}
		x.waiting.Add(int64(len(batch)))
		select {
		case x.batches <- batch:
		default:
			x.waiting.Add(-int64(len(batch)))
			x.unsent.Add(uint64(len(batch)))
		}
		batch = nil
	}
	timer := time.NewTimer(batchDelay)
	timer.Stop()
	t := newTracker(x.o.Topic, func(s *tracepb.Span) {
		if len(batch) == 0 {
			timer.Reset(batchDelay)
		}
		if batch = append(batch, s); len(batch) >= batchSpans {
			hand()
		}
	})
	for {
		select {
		case e := <-x.events:
			t.add(&e)
		case <-timer.C:
			hand()
		case <-x.quit:
			for range len(x.events) {
				t.add(new(<-x.events))
			}
			t.close()
			hand()
			return
		}
	}
}

// send posts batches until there are no more.
func (x *Exporter) send() {
	defer close(x.done)
	stop := x.sender.watch()
	defer stop()
	for batch := range x.batches {
		taken, rejected, err := x.sender.deliver(batch)
		x.waiting.Add(-int64(len(batch)))
		x.sent.Add(uint64(taken))        //nolint:gosec // not negative
		x.rejected.Add(uint64(rejected)) //nolint:gosec // not negative
		x.unsent.Add(uint64(len(batch) - taken - rejected))
		if err != nil {
			x.o.Failed(err)
		}
	}
}
