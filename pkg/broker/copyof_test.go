package broker

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/operate"
)

// Who reads a log sees which messages are copies for one channel, and of what, from any node.
func TestPeekNamesTheOriginalsOfCopies(t *testing.T) {
	l := newLan(t, func(o *Options) { o.Moves.RequeueInMemory = time.Minute }, "n1", "n2", "n3")
	l.create("t", "n1", "n2", "n3")
	l.inSync("t", 0, 3)
	for _, name := range []string{"c", "other"} {
		if err := l.at("n1").Directory.CreateChannel(t.Context(), "t", name, false); err != nil {
			t.Fatal(err)
		}
	}
	l.mustPut("t", 0, "now")
	l.mustPut("t", 0, "later")
	c := l.subscribe("t", "c", 0)
	for _, d := range c.takeSome(2) {
		if string(d.Body) != "later" {
			continue
		}
		if err := c.Requeue(d.ID, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	l.eventually("the message is copied", func() bool { return l.at("n1").Host.Lookup("t").Led(0).Part.Log().CommittedEnd() > 2 })
	for _, node := range l.hosts {
		seen, err := l.at(node.id).Contents.Peek(t.Context(), operate.Peek{Topic: "t", Partition: 0, Max: 10})
		if err != nil || len(seen) != 3 {
			t.Fatal(seen, err)
		}
		if seen[0].CopyOf != nil || seen[1].CopyOf != nil || seen[2].CopyOf == nil || *seen[2].CopyOf != seen[1].ID {
			t.Errorf("at %s: copies of %v, %v, %v", node.id, seen[0].CopyOf, seen[1].CopyOf, seen[2].CopyOf)
		}
	}
	// It also sees what a channel would have to deliver after a move.
	if err := l.at("n1").Contents.EmptyChannel(t.Context(), "t", "other"); err != nil {
		t.Fatal(err)
	}
	plan, err := l.at("n2").Contents.PlanMove(t.Context(), "t", "other", &operate.SeekTo{Start: true})
	if err != nil || len(plan) != 1 || plan[0].Redelivered != 2 || plan[0].Now != 3 {
		t.Errorf("another channel is planned to return to the start: %+v, %v, want 2 of 3 messages", plan, err)
	}
}
