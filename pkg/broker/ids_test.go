package broker

import (
	"testing"

	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/seq"
)

// A message has the same id at every node at which it is consumed or viewed.
func TestMessageHasTheSameIDAtEveryNode(t *testing.T) {
	m := newMesh(t, "n1", "n2")
	m.create("t", "n2")
	m.create("other", "n1")
	m.nodes["n2"].put("t", "a", "b")
	led := m.nodes["n2"].subscribe("t", "c").Numbering()
	relayed := m.nodes["n1"].subscribe("t", "c").Numbering()
	other := m.nodes["n1"].subscribe("other", "c").Numbering()
	if led != relayed {
		t.Errorf("from %s on at the leader, from %s on at the other", led.First(), relayed.First())
	}
	if other == led || led.First() == 0 {
		t.Errorf("two topics begin at %s and %s", led.First(), other.First())
	}
	peeked, err := m.nodes["n2"].Broker.Contents.Peek(t.Context(), operate.Peek{Topic: "t", Partition: host.AnyPartition})
	if err != nil || len(peeked) != 2 || peeked[1].ID != led.ID(seq.NewMessageID(0, 1)) {
		t.Errorf("peeked %+v, %v", peeked, err)
	}
}
