package trace

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/sampling"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Source is a partition that can be traced. The zero Source cannot.
type Source struct {
	Store       *Store
	Incarnation uint64 // of the topic
	Partition   int
	Numbering   seq.Numbering // of the topic
}

// Under returns a recorder of the partition's events under a rule; nil if nothing is recorded.
func (s Source) Under(r sampling.Rule) *Partition {
	if s.Store == nil || !r.On() && s.Store.o.Slow.Publish <= 0 && s.Store.o.Slow.Delivery <= 0 {
		return nil
	}
	return &Partition{source: s, rule: r, slow: &s.Store.o.Slow}
}

// Rule returns the rule, as sampling.ParseRule reads it.
func (p *Partition) Rule() string { return p.rule.String() }

// maxCopies is the maximum number of copies remembered because their original is traced.
const maxCopies = 1 << 16

// Partition records the events of a partition's messages. Its methods are safe for concurrent use,
// may be called with locks held, and do nothing on nil.
type Partition struct {
	source Source
	rule   sampling.Rule
	slow   *Slow

	followed atomic.Bool // there are copies

	mu     sync.Mutex                 // guards copies
	copies map[seq.MessageID]struct{} // of traced messages
}

// Step is an event of one message in a channel.
type Step struct {
	What    What
	Offset  seq.Offset
	Channel string
	Client  string
	Attempt uint16
	Delay   time.Duration
	Note    string
	At      time.Time
	Header  []byte          // of the message, if available
	CopyOf  *record.Address // the original of a copy; nil if there is none or it is not available
}

// Step records a step, if the message and the channel are traced.
func (p *Partition) Step(x *Step) {
	if x.Channel != "" && !p.rule.HasChannel(x.Channel) || !p.traces(x.Offset, x.CopyOf) {
		return
	}
	e := p.event(x)
	p.source.Store.add(&e, x.CopyOf, p.source.Store.context(x.Header))
}

func (p *Partition) event(x *Step) Event {
	return Event{
		What: x.What, Time: x.At.UnixNano(), Message: p.message(x.Offset), Channel: x.Channel, Client: x.Client,
		Attempt: x.Attempt, Delay: x.Delay, Note: x.Note,
	}
}

// Steps records equal steps of messages that are handled together, those of consecutive ones as one
// event. It is not safe for concurrent use. Its zero value has no partition, and may only be flushed.
type Steps struct {
	Partition *Partition
	next      seq.Offset // of the message whose step would continue run
	at        time.Time  // of run
	run       Event      // to be recorded; its zero value is none
}

// Add is like Partition.Step, but the step may be recorded only by Flush.
func (s *Steps) Add(x *Step) {
	s.Flush()
	p := s.Partition
	if !p.rule.All() || p.source.Store.o.Exporter != nil || x.CopyOf != nil || x.Channel != "" && !p.rule.HasChannel(x.Channel) {
		p.Step(x)
		return
	}
	s.run, s.at, s.next = p.event(x), x.At, x.Offset+1
}

// Continue does what Add does with the step that was added last, but for another message, attempt and
// time. If it returns false, Add must be called.
func (s *Steps) Continue(o seq.Offset, attempt uint16, at time.Time) bool {
	if s.run.What == 0 || o != s.next || attempt != s.run.Attempt || at != s.at {
		return false
	}
	s.next++
	s.run.Count = int(s.run.count() + 1) //nolint:gosec // of messages in memory
	return true
}

// Flush records all steps that were added.
func (s *Steps) Flush() {
	if s.run.What != 0 {
		s.Partition.source.Store.add(&s.run, nil, Context{})
		s.run = Event{}
	}
}

// Committed records that messages are committed.
func (p *Partition) Committed(first seq.Offset, count int, at time.Time) {
	if count <= 0 || !p.rule.On() {
		return
	}
	if p.rule.All() {
		p.source.Store.add(&Event{What: Committed, Time: at.UnixNano(), Message: p.message(first), Count: count}, nil, Context{})
		return
	}
	for i := range seq.Offset(count) { //nolint:gosec // not negative
		if p.traces(first+i, nil) {
			p.source.Store.add(&Event{What: Committed, Time: at.UnixNano(), Message: p.message(first + i)}, nil, Context{})
		}
	}
}

// SlowDelivery returns the time from which on a delivery is slow; 0 if never.
func (p *Partition) SlowDelivery() time.Duration { return p.slow.Delivery }

// Took reports the age of a message at its first delivery.
func (p *Partition) Took(o seq.Offset, d time.Duration) {
	if p.slow.Delivery > 0 && d >= p.slow.Delivery && p.slow.Report != nil {
		p.slow.Report("delivery", p.message(o), d)
	}
}

func (p *Partition) message(o seq.Offset) Message {
	return Message{p.source.Incarnation, seq.NewMessageID(p.source.Partition, o)}
}

// traces reports whether a message is traced, by its own id or that of its original.
func (p *Partition) traces(o seq.Offset, of *record.Address) bool {
	if p.rule.All() {
		return true
	}
	id := seq.NewMessageID(p.source.Partition, o)
	if of != nil {
		return p.rule.Has(p.source.Numbering.ID(seq.NewMessageID(of.Partition, of.Offset)))
	}
	if !p.rule.On() {
		return false
	}
	if p.rule.Has(p.source.Numbering.ID(id)) {
		return true
	}
	if !p.followed.Load() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.copies[id]
	return ok
}

// follow records that a copy is traced.
func (p *Partition) follow(id seq.MessageID) {
	if p.rule.All() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.copies == nil || len(p.copies) >= maxCopies {
		p.copies = map[seq.MessageID]struct{}{}
	}
	p.copies[id] = struct{}{}
	p.followed.Store(true)
}

// Publish is a publish whose messages have no offsets yet.
type Publish struct {
	p     *Partition
	since time.Time
	count int
	by    *record.Publisher // nil if unknown
	notes []note            // of the messages to be recorded, by index
}

// note is what to record about a published message.
type note struct {
	index   int
	traceID uint64
	key     uint64
	context Context
	copyOf  *record.Address
}

// Publish inspects messages that are about to be appended. It keeps no reference to them, and
// returns nil if nothing is to be recorded.
func (p *Partition) Publish(msgs []record.Message, since time.Time) *Publish {
	if p == nil {
		return nil
	}
	return p.publish(msgs, since)
}

func (p *Partition) publish(msgs []record.Message, since time.Time) *Publish {
	if len(msgs) == 0 || !p.rule.On() && p.slow.Publish <= 0 {
		return nil
	}
	x := &Publish{p: p, since: since, count: len(msgs), by: msgs[0].From}
	for i := range msgs {
		m := &msgs[i]
		n := note{index: i, traceID: m.TraceID, context: p.source.Store.context(m.Header)}
		if len(m.Key) > 0 {
			n.key = HashKey(m.Key)
		}
		if m.Address != nil {
			n.copyOf = new(*m.Address)
		}
		if n.traceID != 0 || n.key != 0 || n.copyOf != nil || n.context.Valid() {
			x.notes = append(x.notes, n)
		}
	}
	return x
}

// Appended records that the messages were appended, starting at first.
func (x *Publish) Appended(first seq.Offset) {
	if x != nil {
		x.settled(first)
	}
}

func (x *Publish) settled(first seq.Offset) {
	p := x.p
	if d := time.Since(x.since); p.slow.Publish > 0 && d >= p.slow.Publish && p.slow.Report != nil {
		p.slow.Report("publish", p.message(first), d)
	}
	if !p.rule.On() {
		return
	}
	if p.rule.All() && len(x.notes) == 0 {
		e := x.event(first, note{})
		e.Count = x.count
		p.source.Store.add(&e, nil, Context{})
		return
	}
	for i, rest := 0, x.notes; i < x.count; i++ {
		n := note{index: i}
		if len(rest) > 0 && rest[0].index == i {
			n, rest = rest[0], rest[1:]
		}
		o := first + seq.Offset(i) //nolint:gosec // not negative
		if !p.traces(o, n.copyOf) {
			continue
		}
		e := x.event(o, n)
		if e.IsCopy {
			p.follow(e.Message.ID)
		}
		p.source.Store.add(&e, n.copyOf, n.context)
	}
}

func (x *Publish) event(o seq.Offset, n note) Event {
	e := Event{What: Published, Time: x.since.UnixNano(), Message: x.p.message(o), TraceID: n.traceID, KeyHash: n.key}
	if x.by != nil {
		e.Client, e.Note = x.by.Client, x.by.Node
	}
	if of := n.copyOf; of != nil {
		e.IsCopy, e.CopyOf, e.Replaces = true, seq.NewMessageID(of.Partition, of.Offset), of.Moves
	}
	return e
}
