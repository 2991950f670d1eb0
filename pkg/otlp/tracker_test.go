package otlp

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"

	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/trace"
)

var numbering = seq.NumberingFrom(1000)

func orders(incarnation uint64) (Topic, bool) {
	return Topic{Name: "orders", Numbering: numbering}, incarnation == 1
}

// life is a tracker and the spans that it emitted.
type life struct {
	*tracker
	spans []*tracepb.Span
}

func newLife(topic func(uint64) (Topic, bool)) *life {
	l := &life{}
	l.tracker = newTracker(topic, func(s *tracepb.Span) { l.spans = append(l.spans, s) })
	return l
}

func at(ms int) time.Time { return time.Unix(1000, int64(ms)*1e6) }

// happens adds an event for the message at an offset.
func (l *life) happens(w trace.What, o seq.Offset, ms int, change func(*trace.Exported)) {
	id := seq.NewMessageID(3, o)
	x := trace.Exported{Event: trace.Event{What: w, Time: at(ms).UnixNano(), Message: trace.Message{Incarnation: 1, ID: id}}, Origin: id, Noted: at(ms)}
	if w != trace.Published && w != trace.Committed {
		x.Channel, x.Client = "bill", "w1"
	}
	if change != nil {
		change(&x)
	}
	l.add(&x)
}

// String lists the spans in the order of their start, each below its parent.
func (l *life) String() string {
	slices.SortStableFunc(l.spans, func(a, b *tracepb.Span) int { return int(a.StartTimeUnixNano) - int(b.StartTimeUnixNano) })
	names := map[string]string{}
	for _, s := range l.spans {
		names[string(s.SpanId)] = s.Name
	}
	var b strings.Builder
	for _, s := range l.spans {
		fmt.Fprintf(&b, "%s", strings.TrimSuffix(s.Name, " orders"))
		if len(s.ParentSpanId) > 0 {
			name, ok := names[string(s.ParentSpanId)]
			if !ok {
				name = fmt.Sprintf("%x", s.ParentSpanId[:2])
			}
			fmt.Fprintf(&b, "<%s", strings.TrimSuffix(name, " orders"))
		}
		from := time.Duration(s.StartTimeUnixNano - uint64(at(0).UnixNano()))
		fmt.Fprintf(&b, " %d+%d", from.Milliseconds(), (s.EndTimeUnixNano-s.StartTimeUnixNano)/1e6)
		if v := attribute(s, "brokerd.outcome"); v != "" {
			fmt.Fprintf(&b, "=%s", v)
		}
		if s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
			b.WriteString("!")
		}
		b.WriteString("; ")
	}
	return b.String()
}

func attribute(s *tracepb.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			if v := a.Value.GetStringValue(); v != "" {
				return v
			}
			return fmt.Sprint(a.Value.GetIntValue())
		}
	}
	return ""
}

func (l *life) expect(t *testing.T, want string) {
	t.Helper()
	if got := l.String(); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	seen := map[string]bool{}
	for _, s := range l.spans {
		if id := string(s.SpanId); seen[id] || len(id) != 8 || len(s.TraceId) != 16 || s.EndTimeUnixNano < s.StartTimeUnixNano {
			t.Errorf("span %s has the id %x of another one, or is none: %v", s.Name, id, s)
		} else {
			seen[id] = true
		}
	}
}

func published(noted int) func(*trace.Exported) {
	return func(x *trace.Exported) { x.Noted = at(noted); x.Client, x.Note = "10.0.0.1:7", "n2" }
}

func attempt(n uint16) func(*trace.Exported) { return func(x *trace.Exported) { x.Attempt = n } }

func TestEventsBecomeSpans(t *testing.T) {
	l := newLife(orders)
	l.happens(trace.Published, 5, 1, published(3))
	l.happens(trace.Committed, 5, 9, nil)
	l.happens(trace.Delivered, 5, 10, attempt(1))
	l.happens(trace.Touched, 5, 11, nil)
	l.happens(trace.Requeued, 5, 12, nil)
	l.happens(trace.Deferred, 5, 12, func(x *trace.Exported) { x.Delay = time.Second })
	l.happens(trace.Delivered, 5, 20, attempt(2))
	l.happens(trace.TimedOut, 5, 30, nil)
	l.happens(trace.Delivered, 5, 31, attempt(3))
	l.happens(trace.Finished, 5, 35, nil)
	l.expect(t, "publish 1+8; commit<publish 3+6; deliver<publish 10+2=requeue; requeue<deliver 12+0; defer<publish 12+0; "+
		"deliver<publish 20+10=timeout!; timeout<deliver 30+0; deliver<publish 31+4=finish; finish<deliver 35+0; ")
	for _, s := range l.spans {
		if string(s.TraceId) != string(l.spans[0].TraceId) {
			t.Errorf("%s is of another trace", s.Name)
		}
	}
	p, d := l.spans[0], l.spans[7]
	for key, want := range map[string]string{
		"messaging.system": "brokerd", "messaging.operation.name": "publish", "messaging.operation.type": "send",
		"messaging.destination.name": "orders", "messaging.destination.partition.id": "3",
		"messaging.message.id": numbering.ID(seq.NewMessageID(3, 5)).String(), "brokerd.offset": "5",
		"messaging.client.id": "10.0.0.1:7", "brokerd.publish.node": "n2",
	} {
		if got := attribute(p, key); got != want {
			t.Errorf("publish: %s is %q, want %q", key, got, want)
		}
	}
	for key, want := range map[string]string{
		"messaging.destination.subscription.name": "bill", "messaging.client.id": "w1", "brokerd.attempt": "3",
	} {
		if got := attribute(d, key); got != want {
			t.Errorf("deliver: %s is %q, want %q", key, got, want)
		}
	}
	if p.Kind != tracepb.Span_SPAN_KIND_SERVER || d.Kind != tracepb.Span_SPAN_KIND_INTERNAL || d.Name != "deliver orders" {
		t.Errorf("%v, %v", p, d)
	}
}

// The publisher's context is the parent of the publish, and decides whether there are spans.
func TestPublishersContextIsHonoured(t *testing.T) {
	given := trace.ParseContext("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	l := newLife(orders)
	with := func(x *trace.Exported) { x.Context = given }
	l.happens(trace.Published, 5, 1, with)
	l.happens(trace.Committed, 5, 2, nil)
	l.happens(trace.Delivered, 5, 3, with)
	l.happens(trace.Finished, 5, 4, nil)
	l.happens(trace.Finished, 5, 5, func(x *trace.Exported) { x.Channel = "ship" })
	l.expect(t, "publish<b7ad 1+1; commit<publish 1+1; deliver<publish 3+1=finish; finish<deliver 4+0; finish<publish 5+0; ")
	for _, s := range l.spans {
		if fmt.Sprintf("%x", s.TraceId) != "0af7651916cd43dd8448eb211c80319c" {
			t.Errorf("%s is of trace %x", s.Name, s.TraceId)
		}
	}
	unwanted := newLife(orders)
	given.Flags = 0
	unwanted.happens(trace.Published, 5, 1, with)
	unwanted.happens(trace.Committed, 5, 2, nil)
	unwanted.happens(trace.Delivered, 5, 3, with)
	unwanted.happens(trace.Finished, 5, 4, nil)
	unwanted.close()
	unwanted.expect(t, "")
}

// The next leader of a partition adds to the same trace.
func TestTwoNodesMakeOneTrace(t *testing.T) {
	one, two := newLife(orders), newLife(orders)
	one.happens(trace.Published, 5, 1, nil)
	one.happens(trace.Committed, 5, 2, nil)
	two.happens(trace.Delivered, 5, 3, nil)
	two.happens(trace.Finished, 5, 4, nil)
	one.spans = append(one.spans, two.spans...)
	one.expect(t, "publish 1+1; commit<publish 1+1; deliver<publish 3+1=finish; finish<deliver 4+0; ")
	for _, s := range one.spans {
		if string(s.TraceId) != string(one.spans[0].TraceId) {
			t.Errorf("%s is of another trace", s.Name)
		}
	}
	three := newLife(orders)
	three.happens(trace.Delivered, 6, 3, nil)
	three.close()
	if string(three.spans[0].TraceId) == string(one.spans[0].TraceId) {
		t.Error("two messages have one trace")
	}
}

func TestCopyBelongsToOriginsTrace(t *testing.T) {
	l := newLife(orders)
	copied := func(x *trace.Exported) { x.Origin = seq.NewMessageID(3, 5) }
	l.happens(trace.Published, 5, 1, nil)
	l.happens(trace.Committed, 5, 2, nil)
	l.happens(trace.Published, 50, 3, func(x *trace.Exported) { copied(x); x.IsCopy, x.CopyOf = true, x.Origin })
	l.happens(trace.Committed, 50, 4, nil)
	l.happens(trace.Delivered, 50, 5, copied)
	l.happens(trace.Finished, 50, 6, nil)
	l.expect(t, "publish 1+1; commit<publish 1+1; copy<publish 3+1; commit<copy 3+1; deliver<publish 5+1=finish; finish<deliver 6+0; ")
	for _, s := range l.spans {
		if string(s.TraceId) != string(l.spans[0].TraceId) {
			t.Errorf("%s is of another trace", s.Name)
		}
	}
}

// Commits arrive before their publish is recorded, for many at once, twice, and never.
func TestCommitsInAnyOrder(t *testing.T) {
	l := newLife(orders)
	l.happens(trace.Published, 0, 1, func(x *trace.Exported) { x.Count = 3 })
	l.happens(trace.Committed, 0, 2, func(x *trace.Exported) { x.Count = 2 })
	l.expect(t, "publish 1+1; commit<publish 1+1; publish 1+1; commit<publish 1+1; ")
	l.happens(trace.Committed, 0, 3, func(x *trace.Exported) { x.Count = 1000 }) // by a new term
	l.happens(trace.Committed, 0, 4, func(x *trace.Exported) { x.Count = 1000 })
	l.expect(t, "publish 1+1; commit<publish 1+1; publish 1+1; commit<publish 1+1; publish 1+2; commit<publish 1+2; ")
	l.spans = nil
	l.happens(trace.Committed, 2000, 7, nil)
	l.happens(trace.Published, 2000, 5, nil)
	l.expect(t, "publish 5+2; commit<publish 5+2; ")
	l.spans = nil
	l.happens(trace.Committed, 1990, 8, nil) // the events of two batches are recorded concurrently
	l.happens(trace.Published, 2000, 5, nil)
	l.expect(t, "publish 5+2; commit<publish 5+2; ")
	l.spans = nil
	l.happens(trace.Published, 3000, 5, nil)
	l.happens(trace.Published, 3001, 5+int(maxAge.Milliseconds()), nil)
	l.happens(trace.Published, 3002, 5+2*int(maxAge.Milliseconds()), nil)
	if got := l.String(); !strings.HasPrefix(got, "publish 5+0=unknown; ") {
		t.Errorf("a publish waits for its commit for ever: %s", got)
	}
	l.close()
	if n := len(l.spans); n != 3 {
		t.Errorf("%d spans", n)
	}
}

// The tracker's state is bounded, and every started span is sent.
func TestTrackedStateIsBounded(t *testing.T) {
	l := newLife(orders)
	n := seq.Offset(2*maxKnown + 10)
	for o := range n {
		l.happens(trace.Published, o, 1, nil)
		l.happens(trace.Delivered, o, 1, nil)
	}
	if a, b, c := l.links.len(), l.publishes.len(), l.deliveries.len(); a > maxKnown || b > maxKnown || c > maxKnown {
		t.Errorf("%d, %d, %d are known", a, b, c)
	}
	l.close()
	if len(l.spans) != int(2*n) || l.publishes.len() != 0 || l.deliveries.len() != 0 {
		t.Errorf("%d spans of %d", len(l.spans), 2*n)
	}
}

func TestUnexpectedEventsAreIgnored(t *testing.T) {
	l := newLife(orders)
	l.happens(trace.Finished, 5, 9, func(x *trace.Exported) { x.Client, x.Note = "a\xff"+strings.Repeat("x", 1000), "by an operator" })
	l.happens(trace.Delivered, 5, 10, nil)
	l.happens(trace.Delivered, 5, 11, nil)                                                  // the first was never answered
	l.happens(trace.Finished, 5, 2, nil)                                                    // after the clock was set back
	l.happens(trace.Touched, 5, 12, nil)                                                    // too late
	l.happens(trace.DeadLettered, 5, 13, nil)                                               //
	l.happens(trace.Published, 7, 1, func(x *trace.Exported) { x.Message.Incarnation = 2 }) // of a topic that does not exist
	l.close()
	l.expect(t, "publish 1+0=unknown; finish<fd4b 9+0; deliver<fd4b 10+0=unknown; deliver<fd4b 11+0=finish; finish<deliver 11+0; dead_letter<fd4b 13+0!; ")
	if v := attribute(l.spans[1], "messaging.client.id"); len(v) > maxText+3 || !strings.HasPrefix(v, "a\uFFFDx") {
		t.Errorf("client %q", v)
	}
}

// TestNewerValueReplacesOlder: a value that was replaced is not dropped for lack of room later.
func TestNewerValueReplacesOlder(t *testing.T) {
	var gone []string
	g := generations[int, string]{gone: func(v string) { gone = append(gone, v) }}
	g.put(1, "old")
	g.rotate()
	g.put(1, "new")
	if v, ok := g.get(1); v != "new" || !ok || g.len() != 1 {
		t.Errorf("%q of %d", v, g.len())
	}
	if g.rotate(); len(gone) != 0 {
		t.Errorf("dropped %q", gone)
	}
	if g.rotate(); len(gone) != 1 || gone[0] != "new" {
		t.Errorf("dropped %q", gone)
	}
}
