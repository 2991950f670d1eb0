package broker

import (
	"errors"
	"testing"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
)

// An operator finishes a message from another node while a consumer has it. The
// consumer's answer fails, and the next leader does not deliver the message again.
func TestOperatorFinishesMessageInEveryState(t *testing.T) {
	l, _ := newGovernedLan(t, "n1", "n2", "n3")
	ctx := t.Context()
	l.create("t", "n1", "n2", "n3")
	l.inSync("t", 0, 3)
	if err := l.at("n3").Directory.CreateChannel(ctx, "t", "c", false); err != nil {
		t.Fatal(err)
	}
	l.mustPut("t", 0, "poison", "b", "c")
	c := l.subscribe("t", "c", 0)
	d := c.takeSome(1)[0]
	for _, step := range []struct {
		at     meta.NodeID
		offset uint64
		was    api.PeekState
	}{{"n2", 0, api.PeekInFlight}, {"n3", 0, api.PeekFinished}, {"n1", 2, api.PeekReady}} {
		was, err := l.at(step.at).Contents.FinishMessage(ctx, "t", "c", 0, seq.Offset(step.offset))
		if err != nil || was != step.was {
			t.Errorf("%+v: was %s, %v", step, was, err)
		}
	}
	if err := c.Finish(d.ID); !errors.Is(err, failure.NotInFlight) {
		t.Errorf("the consumer's own: %v", err)
	}
	for _, bad := range []struct {
		topic, channel string
		partition      int
		offset         uint64
		want           error
	}{
		{"t", "c", 0, 3, failure.MessageNotFound},
		{"t", "none", 0, 0, failure.ChannelNotFound},
		{"t", "c", 1, 0, failure.PartitionNotFound},
		{"none", "c", 0, 0, failure.TopicNotFound},
	} {
		if _, err := l.at("n2").Contents.FinishMessage(ctx, bad.topic, bad.channel, bad.partition, seq.Offset(bad.offset)); !errors.Is(err, bad.want) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	l.failOver("n1")
	left := l.subscribe("t", "c", 0)
	if got := left.takeSome(1)[0]; string(got.Body) != "b" {
		t.Errorf("the next leader delivers %q", got.Body)
	}
	if s := l.leader("t", 0).Node.TopicStats("t", "c", false)[0].Channels[0]; s.Depth+s.InFlight != 1 {
		t.Errorf("%+v", s)
	}
}
