package broker

import (
	"testing"

	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/topic"
)

// TestPublisherAppendsItself makes a publish append its own messages, with and without a
// dedup id, and waits only for it.
func TestPublisherAppendsItself(t *testing.T) {
	n := newNode(t)
	if _, err := n.Directory.CreateTopic(t.Context(), "t", meta.TopicConfig{Partitions: 1, DedupWindow: meta.DefaultDedupWindow}); err != nil {
		t.Fatal(err)
	}
	for i, m := range []topic.Message{{Body: []byte("a")}, {Body: []byte("b"), Dedup: []byte("id")}} {
		var appendHere func()
		got := make(chan topic.Receipt, 1)
		n.Router.Publish(t.Context(), publish.Request{
			Topic: "t", Partition: host.AnyPartition, Messages: []topic.Message{m},
			Done:   func(r topic.Receipt) { got <- r },
			Inline: func(f func()) { appendHere = f },
		})
		log := n.Host.Lookup("t").Led(0).Part.Log()
		if end := int(log.End()); appendHere == nil || end != i || len(got) != 0 {
			t.Fatalf("message %d: asked %v, the log ends at %d, %d answers", i, appendHere != nil, end, len(got))
		}
		appendHere()
		if r := <-got; r.Err != nil || int(r.First) != i || int(log.CommittedEnd()) != 1+i {
			t.Errorf("message %d: %+v, committed up to %d", i, r, log.CommittedEnd())
		}
	}
}
