package controller

import (
	"testing"

	"github.com/brokerd/brokerd/pkg/meta"
)

// TestFullDiskMovesLeadershipsOnlyToFreeDisks: a node with a full disk transfers leaderships to
// nodes with space, and gets none back while its disk is full. If all disks are full nothing moves:
// leaderships do not go back and forth.
func TestFullDiskMovesLeadershipsOnlyToFreeDisks(t *testing.T) {
	w := newWorld(t, Options{})
	for _, id := range ids("a,b,c") {
		w.start(id, "")
	}
	w.topic("t", 2, [][]meta.NodeID{ids("a,b,c")})
	lead := func(id meta.NodeID) {
		p := w.partition("t", 0)
		w.apply(meta.ElectLeaders{Elections: []meta.Election{{Topic: "t", Version: p.Version, Leader: id}}})
	}
	steady := map[meta.NodeID]bool{"a": true, "b": true, "c": true}
	for _, test := range []struct {
		name        string
		nodes       Conditions
		handedOver  meta.NodeID // by a, which leads; "": nothing is transferred
		elected     meta.NodeID // without a's cooperation
		givenBack   meta.NodeID // when b leads
		leaderOfOld meta.NodeID // the leader elected when a is dead
	}{
		{"all have room", Conditions{"a": Up, "b": Up, "c": Up}, "b", "", "a", "b"},
		{"the leader is full", Conditions{"a": Full, "b": Up, "c": Up}, "b", "", "", "b"},
		{"only the last has room", Conditions{"a": Full, "b": Full, "c": Up}, "c", "", "", "c"},
		{"all are full", Conditions{"a": Full, "b": Full, "c": Full}, "", "", "", "b"},
	} {
		t.Run(test.name, func(t *testing.T) {
			leaderOf := func(es []meta.Election) meta.NodeID {
				if len(es) == 0 {
					return ""
				}
				return es[0].Leader
			}
			lead("a")
			if got := leaderOf(Handover(&w.state, test.nodes, "a", meta.ReasonDisk)); got != test.handedOver {
				t.Errorf("handed over to %q, want %q", got, test.handedOver)
			}
			es, troubles := Elect(&w.state, test.nodes)
			if got := leaderOf(es); got != test.elected || len(troubles) > 0 {
				t.Errorf("elected %q, want %q; troubles %v", got, test.elected, troubles)
			}
			dead := Conditions{"b": test.nodes["b"], "c": test.nodes["c"]}
			if es, _ := Elect(&w.state, dead); leaderOf(es) != test.leaderOfOld {
				t.Errorf("elected %q when a is dead, want %q", leaderOf(es), test.leaderOfOld)
			}
			lead("b")
			if got := leaderOf(toPreferred(&w.state, test.nodes, steady, 0)); got != test.givenBack {
				t.Errorf("given back to %q, want %q", got, test.givenBack)
			}
		})
	}
}
