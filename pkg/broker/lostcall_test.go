package broker

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/brokerd/brokerd/pkg/deferral"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/peer"
)

// losing loses the connection during calls with a word in them, instead of sending them.
type losing struct {
	forward.Remote
	word string
	left atomic.Int32 // that it still loses
}

func (r *losing) Call(ctx context.Context, to meta.NodeID, kind uint8, payload [][]byte) ([]byte, error) {
	if bytes.Contains(bytes.Join(payload, nil), []byte(r.word)) && r.left.Add(-1) >= 0 {
		return nil, peer.ErrDisconnected
	}
	return r.Remote.Call(ctx, to, kind, payload)
}

// A leader that hangs loses its connections after a while, and the partition has another leader then. What only reads is
// asked again, and what may have changed something is not: its error names the partition and the node.
func TestReadsAreRepeatedAfterALostConnection(t *testing.T) {
	remote := &losing{}
	l := newLan(t, func(o *Options) {
		if o.Self == "n1" {
			remote.Remote = o.Calls.Remote
			o.Calls.Remote = remote
		}
	}, "n1", "n2")
	l.create("t", "n2", "n1")
	b := l.at("n1")
	if err := b.Directory.CreateChannel(t.Context(), "t", "c", false); err != nil {
		t.Fatal(err)
	}
	l.mustPut("t", 0, "a", "b", "c")
	deferrals := operate.Deferrals{Node: b.Node}
	start := operate.SeekTo{Start: true}
	reads := map[string]func() error{
		"peek": func() error {
			seen, err := b.Contents.Peek(t.Context(), operate.Peek{Topic: "t", Channel: "c", Partition: -1})
			if err == nil && len(seen) != 3 {
				t.Errorf("%d messages", len(seen))
			}
			return err
		},
		"place": func() error { _, err := b.Contents.PlanMove(t.Context(), "t", "c", &start); return err },
		"deferred": func() error {
			_, err := deferrals.List(t.Context(), deferral.Query{Topic: "t", Channel: "c"})
			return err
		},
	}
	cancel := func(dryRun bool) error {
		_, err := deferrals.Reschedule(t.Context(), deferral.Change{Topic: "t", Channel: "c", Verb: deferral.Cancel, DryRun: dryRun})
		return err
	}
	reads["reschedule"] = func() error { return cancel(true) }
	for word, read := range reads {
		remote.word = word
		remote.left.Store(1)
		if err := read(); err != nil || remote.left.Load() >= 1 {
			t.Errorf("%s: %v, %d left", word, err, remote.left.Load())
		}
		remote.left.Store(1000)
		if err := read(); !errors.Is(err, failure.Unreachable) || fate.Of(err) != fate.Refused || !strings.Contains(err.Error(), "t/0: leader n2: ") {
			t.Errorf("%s, without an end: %v, %v", word, fate.Of(err), err)
		}
	}
	remote.word = "reschedule"
	remote.left.Store(1)
	if err := cancel(false); fate.Of(err) != fate.Uncertain {
		t.Errorf("a cancellation: %v, %v", fate.Of(err), err)
	}
	remote.word = "change"
	remote.left.Store(1)
	err := b.Contents.SeekChannel(t.Context(), "t", "c", operate.SeekTo{End: true})
	if fate.Of(err) != fate.Uncertain || !strings.Contains(err.Error(), "t/0: leader n2: connection to the node lost") {
		t.Errorf("a seek: %v, %v", fate.Of(err), err)
	}
}
