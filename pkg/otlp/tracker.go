package otlp

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"time"

	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/trace"
)

// Topic is the information about a topic in spans.
type Topic struct {
	Name      string
	Numbering seq.Numbering
}

const (
	// maxKnown is the maximum number of messages, of publishes and of deliveries in
	// a tracker.
	maxKnown = 1 << 16
	// maxAge is how long a publish waits for its commit.
	maxAge = time.Minute
	// maxText is the maximum length of a client's name in a span.
	maxText = 256
)

// outcomes are the words for the ends of a delivery; see trace.What.
var outcomes = map[trace.What]string{
	trace.Finished: "finish", trace.Requeued: "requeue", trace.TimedOut: "timeout", trace.DeadLettered: "dead_letter", trace.Deferred: "defer",
}

// link is the trace that the spans of a message belong to.
type link struct {
	trace   [16]byte
	parent  [8]byte // of the publish; zero: none
	state   bool    // it was read from a message
	dropped bool    // its publisher wants no recorded trace
	publish [8]byte // the span of the publish
}

// place identifies a message, or a message in a channel.
type place struct {
	m       trace.Message
	channel string
}

// line is a partition in one incarnation of its topic.
type line struct {
	incarnation uint64
	partition   int
}

// ended is the committed end of a partition.
type ended struct {
	end seq.Offset
	at  time.Time
}

// publishing is a publish that is not known to be committed.
type publishing struct {
	e    trace.Exported
	link link
}

// tracker turns events into spans. It is pure: functions provide topics and receive
// spans.
type tracker struct {
	topic func(incarnation uint64) (Topic, bool)
	emit  func(*tracepb.Span)

	names      map[uint64]Topic
	links      generations[trace.Message, link]
	publishes  generations[trace.Message, *publishing]
	deliveries generations[place, *tracepb.Span]
	committed  map[line]ended
	rotated    time.Time // the publishes
}

func newTracker(topic func(uint64) (Topic, bool), emit func(*tracepb.Span)) *tracker {
	t := &tracker{topic: topic, emit: emit, names: map[uint64]Topic{}, committed: map[line]ended{}}
	t.publishes.gone = func(p *publishing) { t.published(p, time.Time{}) }
	t.deliveries.gone = t.unanswered
	return t
}

// add handles an event.
func (t *tracker) add(x *trace.Exported) {
	t.age(x.Noted)
	first := x.Message.ID
	switch {
	case x.What == trace.Committed:
		t.commit(x)
	case x.Count <= 1:
		t.one(x)
	default:
		for i := range seq.MessageID(x.Count) { //nolint:gosec // not negative
			one := *x
			one.Count, one.Message.ID, one.Origin = 0, first+i, first+i
			t.one(&one)
		}
	}
}

// age ends publishes that have waited too long for their commit.
func (t *tracker) age(now time.Time) {
	if now.Sub(t.rotated) >= maxAge {
		t.rotated = now
		t.publishes.rotate()
	}
}

// close emits the spans that have not ended.
func (t *tracker) close() {
	for range 2 {
		t.publishes.rotate()
		t.deliveries.rotate()
	}
}

// linkOf returns the trace that the spans of a message belong to.
func (t *tracker) linkOf(x *trace.Exported) link {
	told := x.What == trace.Published || x.What == trace.Delivered
	if l, ok := t.links.get(x.Message); ok && (l.state || !told) {
		return l
	}
	top := t.named(x.Message.Incarnation)
	origin := uint64(top.Numbering.ID(x.Origin))
	l := link{publish: [8]byte(sum("publish", origin)), state: told}
	if c := x.Context; c.Valid() {
		l.trace, l.parent, l.dropped = c.TraceID, c.SpanID, !c.Sampled()
	} else {
		l.trace = [16]byte(sum("trace", origin))
	}
	t.links.put(x.Message, l)
	return l
}

// sum returns pseudo-random bytes derived from a message.
func sum(what string, id uint64) []byte {
	h := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(what), id))
	return h[:16]
}

// named returns the topic of an incarnation; the zero Topic if it was deleted.
func (t *tracker) named(incarnation uint64) Topic {
	if top, ok := t.names[incarnation]; ok {
		return top
	}
	top, ok := t.topic(incarnation)
	if ok {
		if len(t.names) >= maxKnown {
			clear(t.names)
		}
		t.names[incarnation] = top
	}
	return top
}

func (t *tracker) one(x *trace.Exported) {
	l := t.linkOf(x)
	if l.dropped {
		return
	}
	switch x.What {
	case trace.Published:
		p := &publishing{*x, l}
		if c, ok := t.committed[lineOf(x.Message)]; ok && x.Message.ID.Offset() < c.end {
			t.published(p, c.at) // the commit was recorded first
			return
		}
		t.publishes.put(x.Message, p)
	case trace.Delivered:
		at := place{x.Message, x.Channel}
		if s, ok := t.deliveries.take(at); ok {
			t.unanswered(s)
		}
		t.deliveries.put(at, t.span(x, l, "deliver", "", x.When()))
	case trace.Touched:
		if s, ok := t.deliveries.get(place{x.Message, x.Channel}); ok && len(s.Events) < 128 {
			s.Events = append(s.Events, &tracepb.Span_Event{Name: "touch", TimeUnixNano: nanos(x.When())})
		}
	default:
		t.settle(x, l)
	}
}

// settle handles an event that ends a delivery, or that needs none.
func (t *tracker) settle(x *trace.Exported, l link) {
	s := t.span(x, l, outcomes[x.What], "settle", x.When())
	d, ok := t.deliveries.get(place{x.Message, x.Channel})
	if ok && x.What != trace.Deferred && x.What != trace.DeadLettered {
		t.deliveries.take(place{x.Message, x.Channel})
		d.EndTimeUnixNano = max(d.StartTimeUnixNano, nanos(x.When()))
		d.Attributes = append(d.Attributes, text("brokerd.outcome", outcomes[x.What]))
		if x.What == trace.TimedOut {
			fail(d, "timeout", "the consumer did not answer in time")
		}
		s.ParentSpanId = d.SpanId
		s.StartTimeUnixNano = d.EndTimeUnixNano
		s.EndTimeUnixNano = s.StartTimeUnixNano
		t.emit(d)
	}
	if x.What == trace.DeadLettered {
		fail(s, "dead_letter", "the message went to the dead-letter topic")
	}
	t.emit(s)
}

// unanswered emits a delivery whose end is unknown.
func (t *tracker) unanswered(s *tracepb.Span) {
	s.Attributes = append(s.Attributes, text("brokerd.outcome", "unknown"))
	t.emit(s)
}

func fail(s *tracepb.Span, kind, why string) {
	s.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: why}
	s.Attributes = append(s.Attributes, text("error.type", kind))
}

// commit ends the publishes that are committed.
func (t *tracker) commit(x *trace.Exported) {
	count := uint64(max(x.Count, 1)) //nolint:gosec // not negative
	first := x.Message.ID
	at, end := lineOf(x.Message), first.Offset()+seq.Offset(count)
	if len(t.committed) >= maxKnown {
		clear(t.committed)
	}
	if c := t.committed[at]; end > c.end {
		t.committed[at] = ended{end, x.When()}
	}
	done := func(m trace.Message) {
		if p, ok := t.publishes.take(m); ok {
			t.published(p, x.When())
		}
	}
	if count <= uint64(t.publishes.len()) { //nolint:gosec // not negative
		for i := range seq.MessageID(count) {
			done(trace.Message{Incarnation: x.Message.Incarnation, ID: first + i})
		}
		return
	}
	for _, m := range t.publishes.keys() { // a new term commits everything that it has inherited
		if m.Incarnation == x.Message.Incarnation && m.ID >= first && uint64(m.ID-first) < count {
			done(m)
		}
	}
}

// published emits a publish, with its commit if that is known.
func (t *tracker) published(p *publishing, committed time.Time) {
	x, l := &p.e, p.link
	name := "publish"
	if x.IsCopy {
		name = "copy"
	}
	s := t.span(x, l, name, "send", x.When())
	if x.IsCopy { // its origin was published under that id, and is its parent
		s.SpanId, s.ParentSpanId = spanID(x), l.publish[:]
	} else {
		s.Kind, s.SpanId, s.ParentSpanId = tracepb.Span_SPAN_KIND_SERVER, l.publish[:], nil
		if l.parent != [8]byte{} {
			s.ParentSpanId = l.parent[:]
		}
	}
	s.EndTimeUnixNano = max(s.StartTimeUnixNano, nanos(x.Noted))
	if committed.IsZero() {
		s.Attributes = append(s.Attributes, text("brokerd.outcome", "unknown"))
		t.emit(s)
		return
	}
	s.EndTimeUnixNano = max(s.EndTimeUnixNano, nanos(committed))
	c := t.span(x, l, "commit", "", x.Noted)
	c.SpanId, c.ParentSpanId = spanID(x, 'c'), s.SpanId
	c.EndTimeUnixNano = max(c.StartTimeUnixNano, nanos(committed))
	t.emit(s)
	t.emit(c)
}

// span begins a child span of the publish; its end is its beginning unless the
// caller sets another.
func (t *tracker) span(x *trace.Exported, l link, name, kind string, at time.Time) *tracepb.Span {
	top := t.named(x.Message.Incarnation)
	s := &tracepb.Span{
		TraceId: l.trace[:], SpanId: spanID(x), ParentSpanId: l.publish[:], Name: name,
		Kind:              tracepb.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano: nanos(at), EndTimeUnixNano: nanos(at),
	}
	s.Attributes = append(make([]*commonpb.KeyValue, 0, 12), text("messaging.system", "brokerd"), text("messaging.operation.name", name))
	if kind != "" {
		s.Attributes = append(s.Attributes, text("messaging.operation.type", kind))
	}
	if top.Name != "" {
		s.Name += " " + top.Name
		s.Attributes = append(s.Attributes,
			text("messaging.destination.name", top.Name), text("messaging.message.id", top.Numbering.ID(x.Message.ID).String()))
	}
	s.Attributes = append(s.Attributes,
		text("messaging.destination.partition.id", strconv.Itoa(x.Message.ID.Partition())),
		number("brokerd.offset", int64(x.Message.ID.Offset()))) //nolint:gosec // an offset has 50 bits
	for _, a := range [...][2]string{
		{"messaging.destination.subscription.name", x.Channel}, {"messaging.client.id", x.Client},
	} {
		if a[1] != "" {
			s.Attributes = append(s.Attributes, text(a[0], a[1]))
		}
	}
	return t.details(x, s)
}

// details adds the attributes that only some events have.
func (t *tracker) details(x *trace.Exported, s *tracepb.Span) *tracepb.Span {
	switch {
	case x.Note == "":
	case x.What == trace.Published:
		s.Attributes = append(s.Attributes, text("brokerd.publish.node", x.Note))
	default:
		s.Attributes = append(s.Attributes, text("brokerd.reason", x.Note))
	}
	if x.Attempt > 0 {
		s.Attributes = append(s.Attributes, number("brokerd.attempt", int64(x.Attempt)))
	}
	if x.Delay > 0 {
		s.Attributes = append(s.Attributes, number("brokerd.delay_ms", x.Delay.Milliseconds()))
	}
	return s
}

// spanID returns the id of a span, derived from its event.
func spanID(x *trace.Exported, also ...byte) []byte {
	h := sha256.New()
	var b []byte
	b = binary.BigEndian.AppendUint64(b, x.Message.Incarnation)
	b = binary.BigEndian.AppendUint64(b, uint64(x.Message.ID))
	b = binary.BigEndian.AppendUint64(b, uint64(x.Time))             //nolint:gosec // the bits of a signed number
	b = binary.BigEndian.AppendUint64(b, uint64(x.Noted.UnixNano())) //nolint:gosec // likewise
	b = append(append(append(b, byte(x.What)), x.Channel...), also...)
	h.Write(b)
	return h.Sum(nil)[:8]
}

func lineOf(m trace.Message) line { return line{m.Incarnation, m.ID.Partition()} }

func nanos(t time.Time) uint64 { return uint64(max(t.UnixNano(), 0)) } //nolint:gosec // not negative

func text(key, value string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: valid(value)}}}
}

func number(key string, n int64) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: n}}}
}
