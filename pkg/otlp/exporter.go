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
	// maxEvents is the maximum number of events that wait to become spans.
	maxEvents = 16 << 10
	// batchSpans is the maximum number of spans in a batch, and maxBatches the maximum
	// number of batches that wait to be sent.
	batchSpans, maxBatches = 512, 32
	// batchDelay is how long a span waits for others in its batch.
	batchDelay = time.Second
	// closeTime bounds Close while the collector responds.
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
	// Transport sends the requests. nil: the settings of http.DefaultTransport.
	Transport http.RoundTripper
}

// Stats are the statistics of an Exporter.
type Stats struct {
	Enabled  bool
	Sent     uint64 // spans that the collector accepted
	Rejected uint64 // spans that the collector refused permanently
	Unsent   uint64 // spans that were dropped because the collector did not accept them in time
	Missed   uint64 // events that were dropped before they became spans
	Waiting  int    // spans that wait to be sent
}

// Exporter sends spans. It implements trace.Exporter. Its methods are safe for
// concurrent use; those of nil do nothing.
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

// New starts an Exporter. It does not connect to the collector yet: an unreachable one is
// not an error.
func New(o Options) (*Exporter, error) {
	url, err := ParseEndpoint(o.Endpoint)
	if err != nil {
		return nil, err
	}
	if o.Topic == nil {
		return nil, errors.New("OTLP exporter: no function for the names of topics")
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

// Export implements trace.Exporter: it queues an event, or drops it.
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

// Stats returns the statistics.
func (x *Exporter) Stats() Stats {
	if x == nil {
		return Stats{}
	}
	return Stats{
		Enabled: true, Sent: x.sent.Load(), Rejected: x.rejected.Load(), Unsent: x.unsent.Load(), Missed: x.missed.Load(),
		Waiting: int(x.waiting.Load()),
	}
}

// Close sends the remaining spans, for at most a second, and not at all if the collector
// does not respond. Events exported afterwards are dropped.
func (x *Exporter) Close() {
	if x == nil {
		return
	}
	x.closing.Do(func() { close(x.quit) })
	<-x.done
}

// build builds batches of spans until the exporter is closed.
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
