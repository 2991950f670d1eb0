package cluster

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/cluster/formation"
	"github.com/brokerd/brokerd/pkg/meta"
)

// membersMove skips a test under the race detector. hashicorp/raft v1.8.0 reads the
// address of a member without its lock where it logs that a pipeline has failed
// (replication.go, pipelineSend), while a change of that address writes it.
// make race runs these tests again without the detector.
func membersMove(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("a data race of the Raft library, in a log line")
	}
}

// All machines get new addresses while they are down: no node is at the address in the metadata,
// which cannot be corrected before a leader is elected.
func TestClusterFormsAfterAllAddressesChange(t *testing.T) {
	membersMove(t)
	for name, hosts := range map[string]map[string]string{
		"new ones":  {"n1": "x1", "n2": "x2", "n3": "x3"},
		"exchanged": {"n1": "n2", "n2": "n3", "n3": "n1"},
		"two swap":  {"n1": "n2", "n2": "n1"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, three, 3, func(t *testing.T, w *world) {
				w.start(three...)
				w.formed(3, 3)
				id := w.cluster("n1")
				w.killAll()
				w.hosts, w.join = hosts, nil
				for _, n := range three {
					w.join = append(w.join, addressOf(w.host(n)))
				}
				w.sleep(time.Second)
				began := time.Now()
				w.start(three...)
				w.formedAs(id, 3, 3)
				w.await("everybody is known where it is", func() bool {
					for _, m := range w.node("n1").Members().Members {
						if m.Address != addressOf(w.host(string(m.ID))) {
							return false
						}
					}
					return true
				})
				t.Logf("after %v", time.Since(began))
				w.topic("t", []meta.NodeID{"n1", "n2", "n3"})
			})
		})
	}
}

// A machine is lost, and another one gets its address and a new name.
func TestNewNodeTakesAddressOfDeadMember(t *testing.T) {
	membersMove(t)
	inWorld(t, three, 3, func(t *testing.T, w *world) {
		w.start(three...)
		w.formed(3, 3)
		id := w.cluster("n1")
		if err := w.kill("n3"); err != nil {
			t.Fatal(err)
		}
		w.hosts = map[string]string{"n4": "n3"}
		w.start("n4")
		w.formedAs(id, 3, 4)
		members := w.node("n1").Members()
		if m, ok := members.Find("n3"); !ok || !m.Voter || !formation.AddressUnknown(m.Address) {
			t.Errorf("%+v", members)
		}
		w.hosts["n3"] = "elsewhere" // it was only moved
		w.start("n3")
		w.formedAs(id, 4, 4)
		if m, _ := w.node("n1").Members().Find("n3"); m.Address != addressOf("elsewhere") {
			t.Errorf("it is at %s", m.Address)
		}
	})
}

// One node cannot elect a leader by voting in the names of several. Of five voters two are left,
// one of which responds at the addresses of the three others.
func TestVoteCountsOnlyForItsNode(t *testing.T) {
	five := []string{"n1", "n2", "n3", "n4", "n5"}
	inWorld(t, five, 5, func(t *testing.T, w *world) {
		w.start(five...)
		w.formed(5, 5)
		w.killAll()
		var mu sync.Mutex // guards opening
		var opening []Lookout
		w.options = func(name string, o *Options) {
			o.Opening = func(l Lookout) {
				mu.Lock()
				defer mu.Unlock()
				opening = append(opening, l)
			}
			for _, lost := range five[2:] {
				if name != "n2" {
					continue
				}
				l, err := w.net.Listen(addressOf(lost))
				if err != nil {
					t.Fatal(err)
				}
				o.Listeners = append(o.Listeners, l)
			}
		}
		w.start("n1", "n2")
		for range 60 {
			w.sleep(time.Second)
			mu.Lock()
			all := slices.Clone(opening)
			mu.Unlock()
			for _, l := range all {
				if s := l.Store(); s != nil && s.IsLeader() {
					t.Fatal("a node leads by the votes of two of five")
				}
			}
		}
	})
}
