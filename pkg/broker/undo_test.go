package broker

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// TestRetentionKeepsMessagesForAnUndo: of two topics whose messages are all finished, retention deletes those of the one
// whose consumer finished them, and keeps those that an operator skipped.
func TestRetentionKeepsMessagesForAnUndo(t *testing.T) {
	n := newNodeWith(t, func(o *Options) {
		o.RetentionInterval = 5 * time.Millisecond
		o.Log.SegmentBytes = 16 << 10
	})
	const messages = 40
	for _, name := range []string{"finished", "skipped"} {
		if _, err := n.Directory.CreateTopic(t.Context(), name, meta.TopicConfig{}); err != nil {
			t.Fatal(err)
		}
		if err := n.Directory.CreateChannel(t.Context(), name, "c", false); err != nil {
			t.Fatal(err)
		}
		for range messages {
			if r := n.publish(publish.Request{Topic: name, Messages: []topic.Message{{Body: make([]byte, 4<<10)}}}); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
	if err := n.Contents.EmptyChannel(t.Context(), "skipped", "c"); err != nil {
		t.Fatal(err)
	}
	c := n.subscribe("finished", "c")
	for _, d := range c.takeSome(messages) {
		if err := c.Finish(d.ID); err != nil {
			t.Fatal(err)
		}
	}
	deleted := func(name string) seq.Offset { return n.Host.Lookup(name).Led(0).Part.Log().Start() }
	eventually(t, func() bool { return deleted("finished") > messages/2 })
	if n := deleted("skipped"); n != 0 {
		t.Errorf("retention deleted %d messages that an undo would deliver", n)
	}
	u, err := n.Contents.UndoChannel(t.Context(), "skipped", "c")
	if err != nil || u.Partitions[0].Gone != 0 || u.Partitions[0].Confirmed != 0 {
		t.Errorf("undo: %+v, %v", u, err)
	}
}
