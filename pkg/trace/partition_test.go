package trace

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/sampling"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

var numbering = seq.NumberingFrom(1000)

// under returns a partition with a rule, and its store.
func under(t *testing.T, text string, slow Slow) (*Partition, *Store) {
	t.Helper()
	r, err := sampling.ParseRule(text)
	if err != nil {
		t.Fatal(err)
	}
	s := Open(Options{FS: vfs.NewMem(), Dir: "trace", Slow: slow})
	return Source{Store: s, Incarnation: 1, Partition: 3, Numbering: numbering}.Under(r), s
}

func at(ms int) time.Time { return time.Unix(1000, int64(ms)*1e6) }

func id(o seq.Offset) Message { return Message{1, seq.NewMessageID(3, o)} }

// lifeOf returns the events of a message as words.
func lifeOf(s *Store, m Message) string {
	var words []string
	for _, l := range Lives(map[string]Found{"n1": s.Find(Query{Messages: []Message{m}})}) {
		for i := range l.Events {
			e := &l.Events[i]
			w := fmt.Sprintf("%s@%d", e.What, e.Message.ID.Offset())
			if e.Attempt > 0 {
				w += fmt.Sprintf("#%d", e.Attempt)
			}
			words = append(words, w)
		}
	}
	return strings.Join(words, " ")
}

func TestEventsAreSorted(t *testing.T) {
	p, s := under(t, "on", Slow{})
	p.Step(&Step{What: Delivered, Offset: 5, Channel: "c", Client: "w", Attempt: 1, At: at(3)})
	p.Committed(4, 3, at(4)) // it was recorded later than the delivery
	x := p.Publish(make([]record.Message, 3), at(1))
	x.Appended(4)
	p.Step(&Step{What: Requeued, Offset: 5, Channel: "c", Client: "w", At: at(5)})
	p.Step(&Step{What: Delivered, Offset: 5, Channel: "c", Client: "w", Attempt: 2, At: at(6)})
	p.Step(&Step{What: Finished, Offset: 5, Channel: "c", Client: "w", At: at(7)})
	if got, want := lifeOf(s, id(5)), "published@5 committed@5 delivered@5#1 requeued@5#1 delivered@5#2 finished@5#2"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got, want := lifeOf(s, id(6)), "published@6 committed@6"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	for _, other := range []Message{id(7), id(3), {2, id(5).ID}, {1, seq.NewMessageID(2, 5)}} {
		if got := lifeOf(s, other); got != "" {
			t.Errorf("%+v has %s", other, got)
		}
	}
}

// A message that is traced by id, or by sampling, is traced as a copy as well.
func TestCopiesFollowTheirOrigin(t *testing.T) {
	text := "id:" + numbering.ID(id(5).ID).String()
	p, s := under(t, text, Slow{})
	p.Publish(make([]record.Message, 2), at(1)).Appended(5)
	p.Committed(0, 100, at(2))
	p.Step(&Step{What: Delivered, Offset: 5, Channel: "c", Attempt: 1, At: at(3)})
	p.Step(&Step{What: Delivered, Offset: 6, Channel: "c", Attempt: 1, At: at(3)})
	to := record.Address{Channel: 1, Partition: 3, Offset: 5, Moves: true}
	p.Publish([]record.Message{{Address: &to}}, at(4)).Appended(50)
	p.Step(&Step{What: Delivered, Offset: 50, Channel: "c", Attempt: 2, At: at(5), CopyOf: &to})
	p.Step(&Step{What: Finished, Offset: 50, Channel: "c", At: at(6)})
	want := "published@5 committed@5 delivered@5#1 published@50 delivered@50#2 finished@50#2"
	for _, m := range []Message{id(5), id(50)} {
		if got := lifeOf(s, m); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	if got := lifeOf(s, id(6)); got != "" {
		t.Errorf("another is traced: %s", got)
	}
}

func TestOnlyNamedChannelsAreTraced(t *testing.T) {
	p, s := under(t, "on channel:c", Slow{})
	p.Step(&Step{What: Delivered, Offset: 5, Channel: "c", At: at(1)})
	p.Step(&Step{What: Delivered, Offset: 5, Channel: "d", At: at(1)})
	p.Step(&Step{What: Deferred, Offset: 5, At: at(1)})
	if got, want := lifeOf(s, id(5)), "delivered@5 deferred@5"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestMessagesAreFoundByTraceIDAndKey(t *testing.T) {
	p, s := under(t, "on", Slow{})
	by := &record.Publisher{Client: "10.0.0.1:1", Node: "n2"}
	p.Publish([]record.Message{{From: by}, {TraceID: 9}, {Key: []byte("k"), TraceID: 8}, {Key: []byte("k")}}, at(1)).Appended(10)
	ids := func(q Query) (got []seq.Offset) {
		q.Incarnation = 1
		for _, m := range s.Find(q).Messages {
			got = append(got, m.ID.Offset())
		}
		return got
	}
	if got := ids(Query{TraceID: 9}); !slices.Equal(got, []seq.Offset{11}) {
		t.Errorf("by trace id: %v", got)
	}
	if got := ids(Query{KeyHash: HashKey([]byte("k"))}); !slices.Equal(got, []seq.Offset{12, 13}) {
		t.Errorf("by key: %v", got)
	}
	if got := s.Find(Query{Incarnation: 2, TraceID: 9}).Messages; len(got) > 0 {
		t.Errorf("another topic has %v", got)
	}
	e := s.Find(Query{Messages: []Message{id(13)}}).Events
	if len(e) != 1 || e[0].Client != "10.0.0.1:1" || e[0].Note != "n2" {
		t.Errorf("%+v", e)
	}
	for range MaxFound + 1 {
		p.Publish([]record.Message{{TraceID: 77}}, at(1)).Appended(100 + seq.Offset(s.Stats().Events))
	}
	if f := s.Find(Query{Incarnation: 1, TraceID: 77}); len(f.Messages) != MaxFound || !f.Truncated {
		t.Errorf("%d messages, truncated: %v", len(f.Messages), f.Truncated)
	}
}

// TestStepsOfConsecutiveMessagesAreRecordedTogether adds steps in which something changes, and counts the events.
func TestStepsOfConsecutiveMessagesAreRecordedTogether(t *testing.T) {
	p, s := under(t, "on", Slow{})
	steps := Steps{Partition: p}
	steps.Flush()
	x := Step{What: Delivered, Channel: "c", Client: "w", Attempt: 1, At: at(1)}
	add := func(o seq.Offset) {
		if x.CopyOf != nil || !steps.Continue(o, x.Attempt, x.At) {
			x.Offset = o
			steps.Add(&x)
		}
	}
	add(0)
	add(1)
	add(2)
	add(4)
	x.At = at(2)
	add(5)
	x.Attempt = 2
	add(6)
	x.CopyOf = &record.Address{Partition: 3, Offset: 1}
	add(7)
	x.CopyOf = nil
	add(8)
	steps.Flush()
	steps.Flush()
	for o, want := range []string{"delivered@0#1", "delivered@1#1", "delivered@2#1", "", "delivered@4#1", "delivered@5#1", "delivered@6#2", "delivered@7#2", "delivered@8#2"} {
		if got := lifeOf(s, id(seq.Offset(o))); got != want {
			t.Errorf("message %d: %q, want %q", o, got, want)
		}
	}
	if got := s.Stats().Events; got != 8 {
		t.Errorf("%d events, want 8", got)
	}
}

func TestUntracedMessagesAreNotRecorded(t *testing.T) {
	p, _ := under(t, "", Slow{})
	if p != nil {
		t.Error("off is on")
	}
	x := p.Publish(make([]record.Message, 1), at(0))
	x.Appended(1)
	if x != nil {
		t.Error("a publish is looked at")
	}
	if (Source{}).Under(sampling.Rule{}) != nil {
		t.Error("no store")
	}
}

func TestSlowMessagesAreReported(t *testing.T) {
	var got []string
	slow := Slow{Publish: time.Second, Delivery: time.Minute, Report: func(kind string, m Message, d time.Duration) {
		got = append(got, fmt.Sprint(kind, m.ID.Offset(), d >= time.Second))
	}}
	p, s := under(t, "", slow)
	p.Publish(make([]record.Message, 1), time.Now().Add(-time.Second)).Appended(1)
	p.Publish(make([]record.Message, 1), time.Now().Add(time.Hour)).Appended(2)
	p.Took(3, time.Minute)
	p.Took(4, time.Minute-1)
	p.Step(&Step{What: Delivered, Offset: 3, At: at(1)})
	p.Committed(1, 9, at(1))
	if !slices.Equal(got, []string{"publish1 true", "delivery3 true"}) || s.Stats().Events != 0 {
		t.Errorf("%v, %+v", got, s.Stats())
	}
}

// TestFewCopiesAreRemembered: a partition that copies without end needs no more and more memory.
func TestFewCopiesAreRemembered(t *testing.T) {
	p, _ := under(t, "1/2", Slow{})
	for i := range seq.MessageID(maxCopies + 10) {
		p.follow(i)
	}
	if n := len(p.copies); n > maxCopies || n == 0 {
		t.Errorf("%d copies, want at most %d", n, maxCopies)
	}
}
