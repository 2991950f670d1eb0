package broker

import (
	"context"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/operate"
)

// TestPartialChangeIsNotReportedAsRefused: the leader of a partition has failed, and no other replica can lead it.
func TestPartialChangeIsNotReportedAsRefused(t *testing.T) {
	l := movedLan(t)
	l.kill("n3")
	b := l.at("n1")
	left := func() int64 {
		return b.Contents.ClusterStats(t.Context(), "t", "c", false)[0].Channels[0].Depth
	}
	for _, x := range []struct {
		what string
		do   func(context.Context) error
		left int64
	}{
		{"empty", func(ctx context.Context) error { return b.Contents.EmptyChannel(ctx, "t", "c") }, 0},
		{"seek", func(ctx context.Context) error {
			return b.Contents.SeekChannel(ctx, "t", "c", operate.SeekTo{Start: true})
		}, 8},
		{"empty topic", func(ctx context.Context) error { return b.Contents.EmptyTopic(ctx, "t") }, 8},
	} {
		err := x.do(t.Context())
		if fate.Of(err) != fate.Uncertain || !strings.Contains(err.Error(), "changed in 2 of 3 partitions") || failure.Of(err).Code != failure.Uncertain {
			t.Errorf("%s: %v, %v", x.what, fate.Of(err), err)
		}
		if got := left(); got != x.left {
			t.Errorf("%s: %d left, want %d", x.what, got, x.left)
		}
	}
	two := 2
	if err := b.Contents.SeekChannel(t.Context(), "t", "c", operate.SeekTo{End: true, Partition: &two}); fate.Of(err) != fate.Refused {
		t.Errorf("of that partition alone: %v", err)
	}
}
