package broker

import (
	"testing"

	"github.com/brokerd/brokerd/internal/logtest"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
)

// TestErrorsOfOperatorsNameNothingTwice walks requests that fail, at a node that does not lead.
func TestErrorsOfOperatorsNameNothingTwice(t *testing.T) {
	l, _ := newGovernedLan(t, "n1", "n2", "n3")
	l.create("t", "n1", "n2")
	l.inSync("t", 0, 2)
	b, ctx := l.at("n3"), t.Context()
	second := func(_ any, err error) error { return err }
	for name, err := range map[string]error{
		"drain":         b.Operator.DrainNode(ctx, "n9", api.DrainNode{Force: true}),
		"undrain":       b.Operator.UndrainNode(ctx, "n9"),
		"decommission":  b.Operator.DecommissionNode(ctx, "n9", true, false),
		"remove":        b.Operator.RemoveNode(ctx, "n9", true, false),
		"remove a user": b.Operator.RemoveNode(ctx, "n1", true, false),
		"node":          second(b.Operator.DescribeNode(ctx, "n9")),
		"partition":     second(b.Operator.DescribePartition(ctx, "t", 9)),
		"transfer":      b.Operator.TransferLeader(ctx, "t", 0, "n9"),
		"elect":         b.Operator.ElectLeader(ctx, "t", 0, "n9", true),
		"elect outside": b.Operator.ElectLeader(ctx, "t", 0, "n3", true),
		"move":          b.Operator.MovePartition(ctx, "t", 0, []meta.NodeID{"n9"}, false),
		"cancel":        b.Operator.CancelMove(ctx, "t", 0),
		"log level":     second(b.Node.SetLogLevel(ctx, "n9", "debug", 0)),
		"settings":      second(b.Node.Settings(ctx, "n9")),
		"peek":          second(b.Contents.Peek(ctx, operate.Peek{Topic: "t", Partition: 9, Max: 1})),
		"copies":        second(b.Contents.Copies(ctx, "t", 9)),
		"discard":       b.Contents.DiscardCopy(ctx, "t", 0, "n9", "aside"),
		"accept":        b.Contents.AcceptLoss(ctx, "t", 0, "n1"),
		"empty":         b.Contents.EmptyChannel(ctx, "t", "nothing"),
		"pause":         b.Contents.PauseChannel(ctx, "t", "nothing", true),
		"seek":          b.Contents.SeekChannel(ctx, "t", "nothing", operate.SeekTo{}),
		"undo":          second(b.Contents.UndoChannel(ctx, "t", "nothing")),
		"restore":       second(b.Contents.RestoreChannel(ctx, "t", "nothing", false)),
		"delete":        b.Contents.DeleteChannel(ctx, "t", "nothing"),
	} {
		if err == nil {
			t.Errorf("%s does not fail", name)
		} else if words := logtest.Doubled(err.Error()); words != "" {
			t.Errorf("%s says %q twice: %v", name, words, err)
		}
	}
}
