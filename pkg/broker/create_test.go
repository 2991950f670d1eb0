package broker

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/brokerd/brokerd/pkg/meta"
)

// want proposes a state that an operator wants for a node.
func (l *lan) want(id meta.NodeID, intent meta.NodeIntent) {
	l.t.Helper()
	if _, err := l.store.Propose(l.t.Context(), meta.SetNodeIntent{ID: id, Intent: intent}); err != nil {
		l.t.Fatal(err)
	}
}

// TestTopicsAreCreatedDuringADrain runs the documented upgrade of a node: it
// drains, stops, restarts and still drains. Meanwhile topics are created, by
// request and by use.
func TestTopicsAreCreatedDuringADrain(t *testing.T) {
	for nodes := 1; nodes <= 3; nodes++ {
		t.Run(fmt.Sprint("one of ", nodes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ids := []meta.NodeID{"n1", "n2", "n3"}[:nodes]
				l := newLan(t, soon, ids...)
				last := ids[nodes-1]
				create := func(when string) {
					t.Helper()
					for i, make := range []func(name string) error{
						func(name string) error {
							_, err := l.at("n1").Directory.CreateTopic(t.Context(), name, meta.TopicConfig{Partitions: 2})
							return err
						},
						func(name string) error { return l.at("n1").Directory.EnsureTopic(t.Context(), name) },
					} {
						name := fmt.Sprint(when, i)
						if err := make(name); err != nil {
							t.Fatalf("%s: %v", name, err)
						}
						for k, p := range l.store.Topic(name).Partitions {
							if len(p.Replicas) != nodes || p.Leader == last && nodes > 1 {
								t.Errorf("%s/%d: replicas %v, led by %s", name, k, p.Replicas, p.Leader)
							}
						}
						l.mustPut(name, 0, "x")
					}
				}
				l.want(last, meta.IntentDrain)
				create("draining")
				if nodes > 1 {
					l.kill(last)
					l.down(last)
					create("down")
					l.start(last)
					create("back")
				}
				l.want(last, meta.IntentNone)
			})
		})
	}
}
