package broker

import (
	"testing"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/stats"
	"github.com/brokerd/brokerd/pkg/topic"
)

// Tools sum up the statistics of all nodes. A topic that other nodes lead is shown by name only, whatever the node's
// clients do, and then with the counts of the whole cluster. A leader reports only its own part.
func TestStatsOfTheNodesSumUp(t *testing.T) {
	l, _ := newGovernedLan(t, "n1", "n2", "n3")
	ctx := t.Context()
	l.spread("t", "n1", "n2", "n2")
	if err := l.at("n1").Directory.CreateChannel(ctx, "t", "c", false); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		l.mustPut("t", i, "a", "b")
	}
	b := l.at("n3")
	if got := b.Contents.NodeStats(ctx, "none", "", false); len(got) != 0 {
		t.Errorf("of no topic: %+v", got)
	}
	whole := func(asked string, got []stats.Topic) {
		t.Helper()
		if len(got) != 1 || got[0].Messages != 6 || !got[0].Elsewhere || len(got[0].Channels) != 1 || got[0].Channels[0].Depth != 6 {
			t.Errorf("%s: %+v", asked, got)
		}
	}
	whole("by name", b.Contents.NodeStats(ctx, "t", "", false))
	whole("by name and channel", b.Contents.NodeStats(ctx, "t", "c", true))
	l.stop("n3")
	l.start("n3")
	b = l.at("n3")
	whole("by name, after a restart", b.Contents.NodeStats(ctx, "t", "", false))
	if err := b.Directory.CreateChannel(ctx, "t", "c", false); err != nil {
		t.Fatal(err)
	}
	b.Router.Publish(ctx, publish.Request{Topic: "t", Partition: 0, Messages: []topic.Message{{Body: []byte("c")}}, Done: func(r topic.Receipt) {
		if r.Err != nil {
			t.Error(r.Err)
		}
	}})
	eventually(t, func() bool { return l.at("n1").Node.TopicStats("t", "c", false)[0].Messages == 3 })
	var sum int64
	for _, id := range []meta.NodeID{"n1", "n2", "n3"} {
		for _, s := range l.at(id).Contents.NodeStats(ctx, "", "", false) {
			if s.Elsewhere {
				t.Errorf("%s leads a part and says that it does not", id)
			}
			sum += s.Channels[0].Depth
		}
	}
	if sum != 7 {
		t.Errorf("the nodes say %d together, want 7", sum)
	}
}

// TestEveryNodeRemembersRecentDeletions: whichever node got the request.
func TestEveryNodeRemembersRecentDeletions(t *testing.T) {
	l, _ := newGovernedLan(t, "n1", "n2", "n3")
	ctx := t.Context()
	l.spread("t", "n1")
	if err := l.at("n1").Directory.CreateChannel(ctx, "t", "c", false); err != nil {
		t.Fatal(err)
	}
	knows := func(topic, channel string, want bool) {
		t.Helper()
		for _, id := range []meta.NodeID{"n1", "n2", "n3"} {
			if err := l.at(id).Host.Converge(topic); err != nil {
				t.Fatal(err)
			}
			if got := l.at(id).Host.Topics.DeletedLately(topic, channel); got != want {
				t.Errorf("%s: %s/%s deleted %v", id, topic, channel, got)
			}
		}
	}
	knows("t", "c", false)
	if err := l.at("n2").Contents.DeleteChannel(ctx, "t", "c"); err != nil {
		t.Fatal(err)
	}
	knows("t", "c", true)
	knows("t", "", false)
	if err := l.at("n3").Directory.DeleteTopic(ctx, "t"); err != nil {
		t.Fatal(err)
	}
	knows("t", "", true)
}
