package broker

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/topic"
)

// sendAt publishes at one node and waits for the receipt.
func (l *lan) sendAt(id meta.NodeID, name string) topic.Receipt {
	l.t.Helper()
	got := make(chan topic.Receipt, 1)
	l.at(id).Router.Publish(l.t.Context(), publish.Request{
		Topic: name, Partition: host.AnyPartition, Messages: []topic.Message{{Body: []byte("x")}}, Done: func(r topic.Receipt) { got <- r },
	})
	return <-got
}

// A refusal keeps its reason and its outcome when the publish was sent through
// another node: clients there get the same error as at the leader.
func TestRefusalIsTheSameThroughAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, soon, "n1", "n2", "n3")
		l.create("t", "n1", "n2")
		l.inSync("t", 0, 2)
		l.mustPut("t", 0, "a")
		if err := l.at("n1").Directory.AlterTopic(t.Context(), "t", func(c *meta.TopicConfig) { c.MinISR = 2 }); err != nil {
			t.Fatal(err)
		}
		l.kill("n2")
		l.inSync("t", 0, 1)
		synctest.Wait() // the leader has applied the metadata
		for _, id := range []meta.NodeID{"n1", "n3"} {
			r := l.sendAt(id, "t")
			if !errors.Is(r.Err, failure.TooFewISR) || fate.Of(r.Err) != fate.Refused {
				t.Errorf("through %s: %v, %v; want that it is not writable and refused", id, r.Err, fate.Of(r.Err))
			}
		}
	})
}

// Every refusal of a publish has a code between nodes: at the client's node it is the
// same error, with the same outcome.
func TestRefusalsKeepMeaningBetweenNodes(t *testing.T) {
	for _, err := range []error{
		failure.NotLeading, failure.Moving, failure.TooFewISR, failure.BodyTooBig, failure.NotLeased, failure.DiskFull, failure.QueueFull, failure.ShuttingDown, failure.NoLeader,
		failure.MessageTooBig, failure.PartitionNeeded, failure.PartitionNotFound, failure.TopicNotFound, failure.InvalidTopic,
	} {
		if got := forward.FromRemote(forward.ToRemote(err)); !errors.Is(got, err) || fate.Of(got) != fate.Refused {
			t.Errorf("%v arrives as %v, %v", err, got, fate.Of(got))
		}
		if got := forward.FromRemote(forward.ToRemote(fate.Mark(err, fate.Uncertain))); !errors.Is(got, err) || fate.Of(got) != fate.Uncertain {
			t.Errorf("%v of an unknown outcome arrives as %v, %v", err, got, fate.Of(got))
		}
	}
}

// Sums over nodes name the leaders that do not answer, also if none does.
func TestSumsNameTheNodesThatAreMissing(t *testing.T) {
	m := newMesh(t, "n1", "n2", "n3")
	m.create("both", "n2", "n3")
	m.create("gone", "n2")
	m.create("here", "n1")
	m.create("soon", "n3")
	resume := m.nodes["n3"].Host.Lookup("soon").Suspend() // it does not lead yet, and answers
	m.link("n1", "n2").cut(true)
	missing := map[string]string{}
	for _, s := range m.nodes["n1"].Contents.ClusterStats(t.Context(), "", "", false) {
		missing[s.Name] = strings.Join(s.MissingNodes, " ")
	}
	want := map[string]string{"both": "n2", "gone": "n2", "here": "", "soon": "n3"}
	if !maps.Equal(missing, want) {
		t.Errorf("missing %v, want %v", missing, want)
	}
	m.link("n1", "n2").cut(false)
	resume()
	for _, s := range m.nodes["n1"].Contents.ClusterStats(t.Context(), "", "", false) {
		if len(s.MissingNodes) > 0 {
			t.Errorf("%s: all answer, and %v are missing", s.Name, s.MissingNodes)
		}
	}
}
