package controller

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
)

// A cancelled move ends with the previous replicas in their order, at whatever point it is
// cancelled, whatever moves it replaced, and even if the leader dies meanwhile.
func TestCancelledMoveIsReversed(t *testing.T) {
	const steps = 12
	for _, targets := range [][]string{{"d,b,c"}, {"d,e,f"}, {"d"}, {"c,b,a,d"}, {"b,a,d"}, {"d,e,f", "a,e,d"}, {"b,c,d", "b,c,e", "f"}} {
		for at := range steps {
			for _, kill := range []string{"", "leader", "new leader"} {
				t.Run(fmt.Sprintf("%v, step %d, kill %s", targets, at, kill), func(t *testing.T) { cancelMove(t, targets, at, kill) })
			}
		}
	}
}

func cancelMove(t *testing.T, targets []string, at int, kill string) {
	w := newWorld(t, Options{})
	for _, id := range ids("a,b,c,d,e,f") {
		w.start(id, "")
	}
	w.topic("t", 1, [][]meta.NodeID{ids("a,b,c")})
	w.core, w.next = newCore(w.opts, "f", w.clock()), w.now
	w.run(5 * time.Second)
	id := meta.PartitionID{Topic: "t"}
	part := func() *meta.Partition { return &w.state.Topic("t").Partitions[0] }
	step := func() {
		w.run(100 * time.Millisecond)
		w.follow()
	}
	for _, target := range targets {
		c, err := PlanMove(&w.state, w.core.Conditions(&w.state), w.opts, id, ids(target))
		if err != nil || w.apply(c).Err != nil {
			t.Fatal(err)
		}
		w.follow() // a replica that joined stays a replica
	}
	for range at {
		step()
	}
	if kill == "leader" {
		w.nodes[part().Leader] = refuses
		w.run(300 * time.Millisecond)
	}
	c, err := PlanCancel(&w.state, id)
	switch {
	case errors.Is(err, failure.NotMoving) && !part().Moving():
		return // the move had completed
	case err != nil:
		t.Fatal(err)
	}
	if r := w.apply(c); r.Err != nil {
		t.Fatal(r.Err)
	}
	if kill == "new leader" {
		w.nodes[part().Leader] = refuses
	}
	for range 10 {
		step()
	}
	for _, id := range ids("a,b,c,d,e,f") {
		w.nodes[id] = answers
	}
	for until := w.now + time.Minute; w.now < until; {
		step()
	}
	if p := part(); p.Moving() || !slices.Equal(p.Replicas, ids("a,b,c")) || len(p.ISR) != 3 || p.Leader != "a" {
		t.Errorf("ended as %+v, want replicas a, b, c led by a\n%s", p, tail(w.log.String()))
	}
}

// A move required by the decommissioning of a node would start again: cancelling it is refused, and
// the error names the decommission to cancel instead.
func TestMoveOffLeavingNodeIsNotCancelled(t *testing.T) {
	w := newWorld(t, Options{})
	for _, id := range ids("a,b,c") {
		w.start(id, "")
	}
	w.topic("t", 1, [][]meta.NodeID{ids("a,b")})
	w.core, w.next = newCore(w.opts, "c", w.clock()), w.now
	w.apply(meta.SetNodeIntent{ID: "b", Intent: meta.IntentDecommission})
	w.run(200 * time.Millisecond)
	if !w.state.Topic("t").Partitions[0].Moving() {
		t.Fatal("nothing moves")
	}
	if _, err := PlanCancel(&w.state, meta.PartitionID{Topic: "t"}); !errors.Is(err, failure.NodeLeaving) {
		t.Errorf("got %v, want %v", err, failure.NodeLeaving)
	}
	w.apply(meta.SetNodeIntent{ID: "b"})
	if _, err := PlanCancel(&w.state, meta.PartitionID{Topic: "t"}); err != nil {
		t.Errorf("b stays: %v", err)
	}
}
