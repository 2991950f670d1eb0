package controller

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/meta"
)

// grown reports whether every partition of a topic has n replicas in sync, and the topic that min
// ISR.
func (w *world) grown(name string, n, minISR int) bool {
	t := w.state.Topic(name)
	return t.Config.MinISR == minISR && t.Config.Replicas == n && !slices.ContainsFunc(t.Partitions, func(p meta.Partition) bool {
		return len(p.Replicas) != n || len(p.ISR) != n || p.Moving()
	})
}

// A cluster grows from one node to three. A topic whose numbers were left open gets its replicas, a
// few partitions at a time, and then its min ISR. A topic created with one replica keeps it.
func TestTopicsGrowWithTheCluster(t *testing.T) {
	o := Options{MovesPerNode: 2, Moves: 3}
	w := newWorld(t, o)
	w.start("n1", "")
	w.openTopic("open", slices.Repeat([][]meta.NodeID{{"n1"}}, 9))
	w.topic("fixed", 1, [][]meta.NodeID{{"n1"}})
	w.core = newCore(o, "n1", w.clock())
	w.run(time.Second)
	if !w.grown("open", 1, 1) {
		t.Fatalf("alone: %+v", w.state.Topic("open"))
	}
	grow := func(to int, minISR int) {
		t.Helper()
		for range 200 {
			w.run(100 * time.Millisecond)
			moving := 0
			for _, p := range w.state.Topic("open").Partitions {
				if p.Moving() {
					moving++
				}
			}
			if moving > o.Moves {
				t.Fatalf("%d partitions grow at a time", moving)
			}
			w.follow()
		}
		if !w.grown("open", to, minISR) {
			t.Fatalf("%d nodes: %+v", to, w.state.Topic("open"))
		}
	}
	w.start("n2", "")
	grow(2, 1)
	w.start("n3", "")
	grow(3, 2)
	w.start("n4", "")
	grow(3, 2)
	for id, l := range w.state.Load() {
		if id != "n4" && (l.Leaders < 3 || l.Leaders > 4) { // of ten partitions
			t.Errorf("%s is the preferred leader of %d partitions", id, l.Leaders)
		}
	}
	if p := w.partition("fixed", 0); len(p.Replicas) != 1 {
		t.Errorf("one replica was asked for: %+v", p)
	}
}

// A node that is to get replicas leaves and returns.
func TestTopicsGrowOnceANodeReturns(t *testing.T) {
	for _, away := range []behaviour{refuses, silent} {
		for after := range 4 {
			t.Run(fmt.Sprint(away, after), func(t *testing.T) {
				w := newWorld(t, Options{})
				w.start("n1", "")
				w.start("n2", "")
				w.openTopic("open", [][]meta.NodeID{{"n1", "n2"}, {"n2", "n1"}})
				w.core = newCore(Options{}, "n1", w.clock())
				w.run(time.Second)
				w.start("n3", "")
				w.run(time.Duration(after) * 200 * time.Millisecond)
				w.nodes["n3"] = away
				for range 50 {
					w.run(100 * time.Millisecond)
					w.follow()
				}
				w.start("n3", "")
				for range 50 {
					w.run(100 * time.Millisecond)
					w.follow()
				}
				if !w.grown("open", 3, 2) {
					t.Errorf("%+v", w.state.Topic("open"))
				}
			})
		}
	}
}
