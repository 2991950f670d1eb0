package meta

import (
	"errors"
	"testing"

	"github.com/brokerd/brokerd/pkg/failure"
)

// TestMoveEndsOnceItsReplicasAreGood says when the old replicas of a reassignment may go.
func TestMoveEndsOnceItsReplicasAreGood(t *testing.T) {
	ids := func(names string) (all []NodeID) {
		for _, n := range names {
			all = append(all, NodeID(string(n)))
		}
		return all
	}
	for _, c := range []struct {
		name     string
		replicas string // the target, then those that go
		adding   string
		removing string
		isr      string
		leader   string
		want     error
	}{
		{"a good copy goes, and all others are good", "dbca", "d", "a", "abcd", "b", nil},
		{"a good copy goes, and the new one is not good", "dbca", "d", "a", "abc", "b", failure.NotInISR},
		{"a good copy goes, and an old one is not good", "dbca", "d", "a", "acd", "d", failure.NotInISR},
		{"a bad copy goes, and the new one is good", "dbca", "d", "a", "bd", "b", nil},
		{"a bad copy goes, and the new one is not good", "dbca", "d", "a", "bc", "b", failure.NotInISR},
		{"a bad copy goes, and nothing comes", "bca", "", "a", "b", "b", nil},
		{"it leads", "dbca", "d", "a", "abcd", "a", failure.InvalidAssignment},
		{"there is none", "abc", "", "", "abc", "a", failure.InvalidAssignment},
	} {
		p := Partition{Replicas: ids(c.replicas), Adding: ids(c.adding), Removing: ids(c.removing), ISR: ids(c.isr), Leader: NodeID(c.leader)}
		if err := p.MoveReady(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
