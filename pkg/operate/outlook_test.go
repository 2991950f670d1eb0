package operate

import (
	"context"
	"slices"
	"testing"

	"github.com/brokerd/brokerd/pkg/level"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

// waiting is an Opening whose store is open.
type waiting struct{ store *raftstore.Store }

func (w waiting) Store() *raftstore.Store { return w.store }
func (waiting) Answers(meta.NodeID) bool  { return true }
func (waiting) Waiting() string           { return "" }

// Probes must not slow a starting node: with many topics, reading the metadata from disk takes a
// second. It is read only for requests for topics or nodes, and again only after it has grown.
func TestOutlookRarelyReadsDisk(t *testing.T) {
	store, err := raftstore.Open(raftstore.Options{Dir: t.TempDir(), NodeID: "n1", Bootstrap: true, ReserveBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	ctx := context.Background()
	propose := func(c meta.Command) {
		t.Helper()
		if _, err := store.Propose(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.WaitLeader(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Init(ctx); err != nil {
		t.Fatal(err)
	}
	o := NewOutlook("n1", waiting{store})
	o.Ready()
	o.ClusterHealth(ctx)
	o.Raft(ctx)
	if o.disk != nil {
		t.Error("a probe reads the metadata from disk")
	}
	names := func() (out []string) {
		for _, topic := range o.Topics() {
			out = append(out, topic.Name)
		}
		return out
	}
	if got := names(); len(got) > 0 {
		t.Errorf("topics %q", got)
	}
	first := o.disk
	o.Cluster()
	if got := names(); len(got) > 0 || o.disk != first || first == nil {
		t.Errorf("topics %q, or what has not grown is read again", got)
	}
	propose(meta.NodeStarted{Node: meta.Node{ID: "n1", Levels: level.Supported()}})
	propose(meta.CreateTopic{Name: "t", Config: meta.TopicConfig{}.WithDefaults(1, false), Assignment: [][]meta.NodeID{{"n1"}}})
	if got := names(); !slices.Equal(got, []string{"t"}) || o.disk == first {
		t.Errorf("topics %q behind a change", got)
	}
}
