package topic

import (
	"time"

	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/trace"
)

// traced records an event of a message that the consumer had. The channel's lock is not held.
func traced(k *Consumer, w trace.What, o seq.Offset, now time.Time) {
	if tr := k.ch.p.trace.Load(); tr != nil {
		tr.Step(&trace.Step{What: w, Offset: o, Channel: k.ch.name, Client: k.o.Name, At: now})
	}
}

// deliveryTracer records the deliveries of messages that were taken together. The zero
// deliveryTracer records nothing.
type deliveryTracer struct {
	steps trace.Steps
	batch seq.Offset // the first message of the batch that was read last
	at    time.Time  // when it had been read, after the commits of the messages; zero: none was
}

// tracerOf returns the tracer of the messages that a consumer has just taken.
func tracerOf(k *Consumer) deliveryTracer {
	return deliveryTracer{steps: trace.Steps{Partition: k.ch.p.trace.Load()}}
}

// delivered records the delivery of the message that was read last.
func (x *deliveryTracer) delivered(k *Consumer, d *Delivery, delay time.Duration) {
	to := x.steps.Partition
	if to == nil {
		return
	}
	if first := k.at.Batch().First(); x.at.IsZero() || first != x.batch {
		x.batch, x.at = first, k.ch.p.o.Now()
	}
	o := d.ID.Offset()
	if k.message.Address != nil || !x.steps.Continue(o, d.Attempts, x.at) {
		x.steps.Add(&trace.Step{
			What: trace.Delivered, Offset: o, Channel: k.ch.name, Client: k.o.Name, Attempt: d.Attempts, At: x.at, Header: d.Header, CopyOf: k.message.Address,
		})
	}
	if d.Attempts == 1 && delay == 0 && k.message.Address == nil && to.SlowDelivery() > 0 {
		to.Took(o, k.ch.p.o.Ages.Age(ageOf(k.at.Batch()), x.at))
	}
}

// tracedBack records the outcome of messages that were taken and not delivered.
func tracedBack(k *Consumer, tr *trace.Partition, now time.Time) {
	x := trace.Step{Channel: k.ch.name, At: now}
	for _, m := range k.undo.late {
		x.What, x.Offset, x.Delay = trace.Deferred, m.offset, m.rest
		tr.Step(&x)
	}
	x.What, x.Delay, x.Note = trace.Finished, 0, "not for this channel's consumers"
	for _, list := range [...][]seq.Offset{k.undo.gone, k.undo.left} {
		for _, x.Offset = range list {
			tr.Step(&x)
		}
	}
	if x.Note = "expired"; RetriesOf(k.ch).Policy().OnExpired == policy.DeadLetter {
		return // recorded when they become dead letters
	}
	for _, x.Offset = range k.undo.expired {
		tr.Step(&x)
	}
}

// tracedRequeue records a requeue and its delay.
func tracedRequeue(k *Consumer, o seq.Offset, now time.Time, delay time.Duration) {
	tr := k.ch.p.trace.Load()
	if tr == nil {
		return
	}
	x := trace.Step{What: trace.Requeued, Offset: o, Channel: k.ch.name, Client: k.o.Name, At: now, Delay: max(delay, 0)}
	tr.Step(&x)
	c := k.ch
	c.mu.Lock()
	due, deferred := c.state.View().Deferrals().Until(o)
	_, attempts := c.state.View().StateOf(o)
	backoff := c.state.Retries().Policy().Backoff
	c.mu.Unlock()
	rest := due.Sub(now)
	if c.bounded.Load() { // it is deferred for longer until its attempts are recorded
		if rest = delay; backoff.On() {
			rest = max(delay, backoff.Delay(attempts, uint64(o)))
		}
	}
	if deferred && rest > 0 {
		x.What, x.Client, x.Delay = trace.Deferred, "", rest
		tr.Step(&x)
	}
}
