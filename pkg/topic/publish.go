package topic

import (
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/trace"
)

// publish is one publish in the log. The term calls its methods.
type publish struct {
	p       *Partition
	msgs    []Message // only until AppendTo has copied them
	count   int
	body    uint64
	copies  int // number of messages that were published before
	rawSize int64
	at      int // byte offset of the records in their batch
	since   time.Time
	done    func(Receipt)
	inline  func(appendHere func())
	tracing *trace.Publish // nil: it is not traced
}

// publishes are reused: a value is in use while its publish is in flight.
var publishes = sync.Pool{New: func() any { return new(publish) }}

// StoredSize returns the encoded size of messages in a log. One publish may have at most
// limit.Sizes.Entry bytes.
func StoredSize(messages []Message) int {
	n := 0
	var breath limit.Breath
	for i := range messages {
		n += commitlog.RecordBytes(messages[i].Size())
		breath.Step()
	}
	return n
}

// Size implements commitlog.Entry.
func (e *publish) Size() int {
	e.rawSize = int64(StoredSize(e.msgs))
	return int(e.rawSize)
}

// AppendTo implements commitlog.Entry.
func (e *publish) AppendTo(b *commitlog.Builder) {
	e.body, e.copies, e.at = 0, 0, b.End()
	var breath limit.Breath
	for i := range e.msgs {
		m := &e.msgs[i]
		appendRecord(m, b)
		if m.Address != nil {
			e.copies++
		} else {
			e.body += uint64(len(m.Body))
		}
		breath.Step()
	}
	e.tracing = e.p.trace.Load().Publish(e.msgs, e.since)
	e.msgs = nil
}

// Inline implements coord.Inliner.
func (e *publish) Inline() func(appendHere func()) { return e.inline }

// Complete implements commitlog.Entry.
func (e *publish) Complete(at commitlog.Placed, err error) {
	if err == nil || at.Written {
		e.tracing.Appended(at.First)
	}
	if err != nil {
		e.finish(Receipt{Partition: e.p.o.Index, First: at.First, Written: at.Written, Err: err})
		return
	}
	e.p.messages.Add(uint64(e.count - e.copies))
	e.p.bytes.Add(e.body)
	e.finish(Receipt{Partition: e.p.o.Index, First: at.First, Count: e.count, Position: at.Position + int64(e.at), RawSize: e.rawSize, Written: true})
}

func (e *publish) finish(r Receipt) {
	r.Err = fate.Brief(r.Err, failure.NoSpace, failure.NoFiles) // without local paths
	e.p.o.Observer.ObservePublish(time.Since(e.since), r.Err)
	done := e.done
	*e = publish{}
	publishes.Put(e)
	done(r)
}

// Offered is a publish. Inline may be called once before Offer returns, with a function that
// appends the messages and waits for the disk: the caller of Offer then runs it. nil: the caller
// does not.
type Offered struct {
	Messages []Message
	Done     func(Receipt)
	Inline   func(appendHere func())
}

// Offer appends messages, all or none, and has copied them when it returns; it may wait while too
// much waits to be written. Done is called once, possibly before Offer returns, and must not
// block. An error is a refusal: nothing happened, and Done is not called.
func (p *Partition) Offer(o Offered) error {
	e := publishes.Get().(*publish)
	e.p, e.msgs, e.count, e.since, e.done, e.inline = p, o.Messages, len(o.Messages), time.Now(), o.Done, o.Inline
	err := p.out.Append(e)
	if err != nil {
		*e = publish{}
		publishes.Put(e)
	}
	return err
}

const (
	// attrDeferred marks batches that hold a message with a delay, so that only those are scanned
	// when they are committed.
	attrDeferred uint16 = 1 << iota
	// attrAddressed marks batches that hold an addressed message, likewise.
	attrAddressed
	// AttrIdentified marks batches that hold a message with a dedup id, so that only those are
	// scanned when a leadership begins.
	AttrIdentified
)

// appendRecord appends m's record to the batch in progress.
func appendRecord(m *Message, b *commitlog.Builder) {
	m.Encode(b.Next(m.Size()))
	if m.Delay > 0 {
		b.SetAttributes(attrDeferred)
	}
	if m.Address != nil {
		b.SetAttributes(attrAddressed)
	} else if m.Dedup != nil {
		b.SetAttributes(AttrIdentified)
	}
}
