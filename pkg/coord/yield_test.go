package coord

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord/replication"
	"github.com/brokerd/brokerd/pkg/meta"
)

// TestTermYieldsToAReplicaThatProvesALoss: n1 leads in epoch 2 over a log of three messages of epoch 1. n2 is in sync, n3
// is not, unless the name of a case says so.
func TestTermYieldsToAReplicaThatProvesALoss(t *testing.T) {
	for _, c := range []struct {
		name     string
		follower int
		said     ReplicaView // what the metadata knows of n2
		verified bool        // another in-sync replica was compared before
		standing replication.Standing
		may      bool // the follower may truncate
		yields   bool
	}{
		{"it holds the same", 0, ReplicaView{}, false, replication.Standing{Epoch: 1, End: 3, Committed: 3}, true, false},
		{"it holds more at the start", 0, ReplicaView{}, false, replication.Standing{Epoch: 1, End: 5}, false, true},
		{"it is of a later epoch at the start", 0, ReplicaView{}, false, replication.Standing{Epoch: 2, End: 2}, false, true},
		{"it merely holds more later", 0, ReplicaView{}, true, replication.Standing{Epoch: 1, End: 5}, true, false},
		{"it knows more as committed later", 0, ReplicaView{}, true, replication.Standing{Epoch: 1, End: 5, Committed: 4}, false, true},
		{"it is not in sync", 1, ReplicaView{}, true, replication.Standing{Epoch: 1, End: 5, Committed: 4}, true, false},
		{"it held less when it yielded, and n3 may hold more", 0, ReplicaView{Suspect: true, LastEpoch: 1, End: 2}, false, replication.Standing{Epoch: 2, End: 5}, true, false},
		{"it held less when it yielded", 0, ReplicaView{Suspect: true, LastEpoch: 1, End: 2}, false, replication.Standing{Epoch: 2, End: 5}, true, false},
		{"it held more when it yielded", 0, ReplicaView{Suspect: true, LastEpoch: 1, End: 4}, false, replication.Standing{Epoch: 2, End: 5}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := viewOf(1, "n1", "n2")
				if strings.Contains(c.name, "n3") {
					v = viewOf(1, "n1", "n2", "n3")
				}
				v.MinISR = 2
				c.said.Node, c.said.Incarnation = "n2", 1
				v.Replicas[1] = c.said
				var to []meta.NodeID
				l := inherited(t, 3)
				term, err := lead(termOptions{
					ReplicaOptions: ReplicaOptions{Self: "n1", Peers: silent{}, Yield: func(_ *Term, y Yield) {
						if to = append(to, y.To); y.LastEpoch != 1 || y.End != 3 || y.Epoch != 2 {
							t.Errorf("yields as %+v", y)
						}
					}},
					Log: l, View: v, Unverified: true, Committed: func(commitlog.Batch) {},
				})
				if err != nil {
					t.Fatal(err)
				}
				if c.verified && !(watch{term, term.members.followers()[0]}).compare(replication.Standing{Epoch: 1, End: 3}) {
					t.Fatal("an equal replica may not truncate")
				}
				w := watch{term, term.members.followers()[c.follower]}
				if may := w.compare(c.standing); may != c.may {
					t.Errorf("it may truncate: %v", may)
				}
				if yields := len(to) > 0; yields != c.yields || yields && to[0] != w.f.node {
					t.Errorf("yields to %v", to)
				}
				_ = term.Stop()
				_ = l.Close()
			})
		})
	}
}
