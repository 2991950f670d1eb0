package topic

import (
	"slices"
	"testing"

	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/trace"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// TestEachMessageOfATracedTopicHasItsEvents takes messages together, one of which its consumer requeues.
func TestEachMessageOfATracedTopicHasItsEvents(t *testing.T) {
	b := newBench(t)
	store := trace.Open(trace.Options{FS: vfs.NewMem(), Dir: "trace"})
	b.p.o.Trace = trace.Source{Store: store, Incarnation: 1, Partition: 3}
	b.p.Configure(Settings{Trace: "on"})
	r := b.join(b.channel("c", 1), func(o *ConsumerOptions) { o.Name = "worker" })
	b.publish("a", "b", "c", "d")
	want(t, "taken", r.take(3, b.now), "a b c")
	r.finish("a", "c")
	if err := r.Requeue(r.got["b"], b.now, 0); err != nil {
		t.Fatal(err)
	}
	want(t, "taken again", r.take(3, b.now), "b d")
	r.finish("b", "d")
	for o, steps := range [][]trace.What{
		{trace.Published, trace.Delivered, trace.Finished},
		{trace.Published, trace.Delivered, trace.Requeued, trace.Delivered, trace.Finished},
		{trace.Published, trace.Delivered, trace.Finished},
		{trace.Published, trace.Delivered, trace.Finished},
	} {
		m := trace.Message{Incarnation: 1, ID: seq.NewMessageID(3, seq.Offset(o))}
		var got []trace.What
		for _, life := range trace.Lives(map[string]trace.Found{"n1": store.Find(trace.Query{Messages: []trace.Message{m}})}) {
			for _, e := range life.Events {
				if e.What != trace.Committed {
					got = append(got, e.What)
				}
				if e.What == trace.Delivered && (e.Client != "worker" || e.Channel != "c") {
					t.Errorf("message %d was delivered to %q on channel %q", o, e.Client, e.Channel)
				}
			}
		}
		slices.Sort(got) // the bench's clock stands still, while a finish reads the time
		slices.Sort(steps)
		if !slices.Equal(got, steps) {
			t.Errorf("message %d: %v, want %v", o, got, steps)
		}
	}
}
