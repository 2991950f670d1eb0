package controller

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
)

func TestPick(t *testing.T) {
	three := ids("a,b,c")
	up := Conditions{"a": Up, "b": Up, "c": Up}
	for _, test := range []struct {
		name  string
		p     meta.Partition
		nodes Conditions
		load  map[meta.NodeID]int
		want  meta.NodeID
	}{
		{"the preferred", meta.Partition{Replicas: three, ISR: three}, up, map[meta.NodeID]int{"a": 9}, "a"},
		{"not one out of sync", meta.Partition{Replicas: three, ISR: ids("b,c")}, up, nil, "b"},
		{"the one that leads less", meta.Partition{Replicas: three, ISR: ids("b,c")}, up, map[meta.NodeID]int{"b": 1}, "c"},
		{"in the order of the replicas, not of the set", meta.Partition{Replicas: three, ISR: ids("c,b")}, up, nil, "b"},
		{"not the leader itself", meta.Partition{Replicas: three, ISR: three, Leader: "a"}, up, nil, "b"},
		{"not a dead one", meta.Partition{Replicas: three, ISR: three}, Conditions{"c": Up}, nil, "c"},
		{"one that drains last", meta.Partition{Replicas: three, ISR: three}, Conditions{"a": Draining, "c": Up}, map[meta.NodeID]int{"c": 9}, "c"},
		{"but rather than none", meta.Partition{Replicas: three, ISR: three}, Conditions{"b": Draining}, nil, "b"},
		{"one whose disk is full last", meta.Partition{Replicas: three, ISR: three}, Conditions{"a": Full, "c": Up}, map[meta.NodeID]int{"c": 9}, "c"},
		{"before one that drains", meta.Partition{Replicas: three, ISR: three}, Conditions{"a": Draining, "c": Full}, nil, "c"},
		{"one that stays before one that goes", meta.Partition{Replicas: ids("d,c,b"), Removing: ids("b"), ISR: ids("b,c")}, up, map[meta.NodeID]int{"c": 9}, "c"},
		{"one that goes before one that drains", meta.Partition{Replicas: ids("d,c,b"), Removing: ids("b"), ISR: ids("b,c")}, Conditions{"b": Up, "c": Draining}, nil, "b"},
		{"not one that may have lost data", meta.Partition{Replicas: three, ISR: three, Suspects: []meta.Suspect{{Node: "a", End: 9}}}, up, nil, "b"},
		{"one that may have lost data if all may have", meta.Partition{Replicas: three, ISR: ids("a,b"), Suspects: []meta.Suspect{{Node: "a", End: 8}, {Node: "b", End: 9}}}, up, nil, "b"},
		{"not while one that has not is dead", meta.Partition{Replicas: three, ISR: ids("a,b"), Suspects: []meta.Suspect{{Node: "a", End: 8}}}, Conditions{"a": Up}, nil, ""},
		{"nobody", meta.Partition{Replicas: three, ISR: ids("a")}, Conditions{"b": Up, "c": Up}, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, found := pick(&test.p, test.nodes, test.load)
			if got != test.want || found != (test.want != "") {
				t.Errorf("got %q, %v", got, found)
			}
		})
	}
}

// Leaderships of a dead node go to the nodes that lead least, in turn.
func TestElectionsSpread(t *testing.T) {
	w := newWorld(t, Options{})
	for _, id := range ids("a,b,c,d") {
		w.start(id, "")
	}
	var assignment [][]meta.NodeID
	for range 30 {
		assignment = append(assignment, ids("a,b,c,d"))
	}
	w.topic("t", 1, assignment)
	elections, _ := Elect(&w.state, Conditions{"b": Up, "c": Up, "d": Up})
	led := map[meta.NodeID]int{}
	for _, e := range elections {
		led[e.Leader]++
	}
	if got := fmt.Sprint(led); got != "map[b:10 c:10 d:10]" {
		t.Error(got)
	}
}

// A transfer without a target reports why no node can lead.
func TestTransfersWithoutTarget(t *testing.T) {
	w := newWorld(t, Options{})
	for _, id := range ids("a,b") {
		w.start(id, "")
	}
	w.topic("t", 1, [][]meta.NodeID{ids("a")})
	at, up := meta.PartitionID{Topic: "t"}, Conditions{"a": Up, "b": Up}
	if _, err := Transfer(&w.state, up, at, "", false); !errors.Is(err, failure.NoOtherInSync) {
		t.Errorf("of one replica: %v", err)
	}
	w.apply(meta.SetNodeState{ID: "a", State: meta.NodeDown})
	elections, _ := Elect(&w.state, Conditions{"b": Up})
	w.apply(meta.ElectLeaders{Elections: elections})
	if _, err := Transfer(&w.state, Conditions{"b": Up}, at, "", false); !errors.Is(err, failure.NoneInSync) {
		t.Errorf("of a partition that is offline: %v", err)
	}
}

// An operator's impossible request is refused with a reason before anything is changed.
func TestRefusals(t *testing.T) {
	w := newWorld(t, Options{})
	for _, id := range ids("a,b,c,d,e") {
		w.start(id, "")
	}
	w.topic("t", 1, [][]meta.NodeID{ids("a,b"), ids("a,b"), ids("a,b")})
	w.apply(meta.SetNodeIntent{ID: "e", Intent: meta.IntentDecommission})
	nodes := Conditions{"a": Up, "b": Up, "c": Up, "e": Draining}
	o := Options{MovesPerNode: 1}
	move := func(partition int, target string) error {
		c, err := PlanMove(&w.state, nodes, o, meta.PartitionID{Topic: "t", Partition: partition}, ids(target))
		if err == nil {
			err = w.apply(c).Err
		}
		return err
	}
	transfer := func(id meta.PartitionID, to meta.NodeID, unclean bool) error {
		_, err := Transfer(&w.state, nodes, id, to, unclean)
		return err
	}
	cancel := func(id meta.PartitionID) error { _, err := PlanCancel(&w.state, id); return err }
	t0 := meta.PartitionID{Topic: "t"}
	for _, test := range []struct {
		name string
		got  error
		want error
	}{
		{"move to a stranger", move(0, "a,x"), failure.NodeNotFound},
		{"move to a dead node", move(0, "a,d"), failure.NodeNotUp},
		{"move to one that is about to leave", move(0, "a,e"), failure.NodeNotUp},
		{"move to one twice", move(0, "c,c"), failure.InvalidAssignment},
		{"move to nobody a partition that is not there", move(3, "c"), failure.PartitionNotFound},
		{"cancel what does not move", cancel(t0), failure.NotMoving},
		{"move", move(0, "a,c"), nil},
		{"move one more than may move", move(1, "a,c"), failure.TooManyMoves},
		{"another order costs nothing", move(1, "b,a"), nil},
		{"change a move under way", move(0, "b,c"), nil},
		{"cancel", cancel(t0), nil},
		{"cancel in another topic of the name", cancel(meta.PartitionID{Topic: "t", Incarnation: 99}), failure.StaleIncarnation},
		{"cancel in no topic", cancel(meta.PartitionID{Topic: "u"}), failure.TopicNotFound},
		{"transfer out of sync", transfer(t0, "c", false), failure.NotInISR},
		{"transfer to a stranger", transfer(t0, "x", false), failure.NodeNotFound},
		{"unclean, to one that holds nothing", transfer(t0, "e", true), failure.NotInISR},
		{"unclean, to nobody", transfer(t0, "", true), failure.NotInISR},
		{"unclean", transfer(t0, "c", true), nil},
		{"transfer", transfer(t0, "", false), nil},
		{"drain a stranger", CheckDrain(&w.state, nodes, "x", false), failure.NodeNotFound},
		{"drain", CheckDrain(&w.state, nodes, "a", true), nil},
		{"drain the last", CheckDrain(&w.state, Conditions{"a": Up}, "a", false), failure.CannotDrain},
	} {
		if !errors.Is(test.got, test.want) || test.got != nil && fate.Of(test.got) != fate.Refused {
			t.Errorf("%s: %v, fate %v", test.name, test.got, fate.Of(test.got))
		}
	}
}

// An ephemeral topic is in the memory of one node. If that died, the name could not be used anywhere
// until the node came back: publishes and subscriptions of it failed on all nodes.
func TestEphemeralTopicOfDeadNodeIsDeleted(t *testing.T) {
	w := newWorld(t, Options{})
	for _, id := range ids("a,b,c") {
		w.start(id, "")
	}
	w.core = newCore(w.opts, "a", w.clock())
	one := [][]meta.NodeID{ids("c")}
	w.topic("gone#ephemeral", 1, [][]meta.NodeID{ids("c"), ids("c")})
	w.topic("half#ephemeral", 1, [][]meta.NodeID{ids("b"), ids("c")})
	w.topic("stays#ephemeral", 1, [][]meta.NodeID{ids("b")})
	w.topic("stored", 1, one)
	w.run(time.Minute)
	w.nodes["c"] = silent
	w.run(5 * time.Second)
	if w.state.Topic("gone#ephemeral") == nil {
		t.Error("deleted at once: the node may only be paused")
	}
	w.run(20 * time.Second)
	for name, want := range map[string]bool{"gone#ephemeral": false, "half#ephemeral": true, "stays#ephemeral": true, "stored": true} {
		if got := w.state.Topic(name) != nil; got != want {
			t.Errorf("%s exists: %t, want %t", name, got, want)
		}
	}
}

// A node that died several times in a minute counts as dead for up to ten seconds after it answers again:
// its topics are there.
func TestEphemeralTopicOfAnsweringNodeStays(t *testing.T) {
	w := newWorld(t, Options{})
	for _, id := range ids("a,b,c") {
		w.start(id, "")
	}
	w.core = newCore(w.opts, "a", w.clock())
	w.topic("x#ephemeral", 1, [][]meta.NodeID{ids("c")})
	w.run(2 * time.Second)
	for range 6 {
		for _, b := range []behaviour{silent, answers} {
			w.nodes["c"] = b
			for alive := b == answers; w.core.Alive("c") != alive; {
				w.run(step)
			}
		}
	}
	if w.state.Topic("x#ephemeral") == nil {
		t.Fatalf("it was deleted while the node answered\n%s", w.log.String())
	}
	w.nodes["c"] = silent
	w.run(2 * time.Second)
	w.nodes["c"] = answers
	w.run(time.Second) // not for long enough
	w.nodes["c"] = silent
	w.run(20 * time.Second)
	if w.state.Topic("x#ephemeral") != nil {
		t.Error("it stays although its node is silent")
	}
}
