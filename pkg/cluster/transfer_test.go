package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
)

func TestLivingLeaderIsAskedFirst(t *testing.T) {
	for _, willing := range []bool{true, false} {
		t.Run(fmt.Sprint("willing ", willing), func(t *testing.T) {
			inWorld(t, three, 3, func(t *testing.T, w *world) {
				asked := make(chan string, 100)
				w.operate = func(self string, o forward.Operate) error {
					asked <- fmt.Sprintf("%s %s %s", self, o.Op, o.Args)
					if !willing {
						return errors.New("not now")
					}
					s := w.node(self).Store()
					p := s.Topic("t").Partitions[0]
					_, err := s.Propose(t.Context(), meta.ElectLeaders{Elections: []meta.Election{{
						Topic: "t", Partition: 0, Version: p.Version, Leader: "n2", Reason: "by itself",
					}}})
					return err
				}
				w.start(three...)
				w.formed(3, 3)
				w.topic("t", []meta.NodeID{"n1", "n2", "n3"})
				w.sleep(3 * time.Second)
				epoch := w.partition("n1", "t", 0).Epoch
				if _, err := w.node("n3").Store().Propose(t.Context(), meta.SetNodeIntent{ID: "n1", Intent: meta.IntentDrain}); err != nil {
					t.Fatal(err)
				}
				took := w.await("n1 leads nothing", func() bool { return w.partition("n3", "t", 0).Leader != "n1" })
				if took > 50*time.Millisecond {
					t.Errorf("took %v", took)
				}
				want := `n1 handover {"topic":"t","incarnation":` + fmt.Sprint(w.node("n1").Store().Topic("t").Incarnation) + `,"partition":0,"epoch":` + fmt.Sprint(epoch) + `,"to":"n2","reason":"drain"}`
				if got := <-asked; got != want {
					t.Errorf("asked %s\nwant  %s", got, want)
				}
				w.sleep(3 * time.Second)
				if p := w.partition("n3", "t", 0); p.Leader != "n2" || p.Epoch != epoch+1 || len(asked) != 0 {
					t.Errorf("%+v, asked %d times more", p, len(asked))
				}
			})
		})
	}
}

// A leader that refuses for a moment is asked again: it transfers the leadership for another request, or
// has not applied what the controller has. Deposing it would fail what it is about to commit.
func TestBrieflyRefusingLeaderIsNotDeposed(t *testing.T) {
	for _, refusal := range []error{failure.Moving, failure.StaleVersion, failure.NotInISR} {
		t.Run(refusal.Error(), func(t *testing.T) { refusesForAMoment(t, refusal) })
	}
}

func refusesForAMoment(t *testing.T, refusal error) {
	inWorld(t, three, 3, func(t *testing.T, w *world) {
		var busy atomic.Bool
		busy.Store(true)
		w.operate = func(self string, _ forward.Operate) error {
			if busy.Load() {
				return fmt.Errorf("t/0: %w", refusal)
			}
			s := w.node(self).Store()
			_, err := s.Propose(t.Context(), meta.ElectLeaders{Elections: []meta.Election{{
				Topic: "t", Partition: 0, Version: s.Topic("t").Partitions[0].Version, Leader: "n2", Reason: "by itself",
			}}})
			return err
		}
		w.start(three...)
		w.formed(3, 3)
		w.topic("t", []meta.NodeID{"n1", "n2", "n3"})
		w.sleep(3 * time.Second)
		if _, err := w.node("n3").Store().Propose(t.Context(), meta.SetNodeIntent{ID: "n1", Intent: meta.IntentDrain}); err != nil {
			t.Fatal(err)
		}
		w.sleep(time.Second)
		if p := w.partition("n3", "t", 0); p.Leader != "n1" {
			t.Errorf("led by %s in epoch %d", p.Leader, p.Epoch)
		}
		busy.Store(false)
		w.await("n1 leads nothing", func() bool { return w.partition("n3", "t", 0).Leader == "n2" })
	})
}

// A leader that never does what it is asked, for whatever reason, is deposed in the end: a drain would
// never be over. A leader that does not answer gives up all its partitions together.
func TestLeaderIsNotAskedForEver(t *testing.T) {
	for _, test := range []struct {
		what       string
		partitions int
		operate    func(hang chan struct{}) error
	}{
		{"it refuses", 10, func(chan struct{}) error { return failure.NotInISR }},
		{"it accepts", 10, func(chan struct{}) error { return nil }},
		{"it hangs", 8 * leaderTransferLimit, func(hang chan struct{}) error { <-hang; return errors.New("hung") }},
	} {
		t.Run(test.what, func(t *testing.T) {
			inWorld(t, three, 3, func(t *testing.T, w *world) {
				hang := make(chan struct{})
				defer close(hang)
				w.operate = func(string, forward.Operate) error { return test.operate(hang) }
				w.start(three...)
				w.formed(3, 3)
				leads := meta.NodeID(w.leader().name)
				drains, other := meta.NodeID("n1"), meta.NodeID("n2")
				if leads == drains {
					drains, other = other, drains
				}
				all := make([][]meta.NodeID, test.partitions)
				for i := range all {
					all[i] = []meta.NodeID{drains, other}
				}
				w.topic("t", all...)
				w.sleep(3 * time.Second)
				if _, err := w.node("n3").Store().Propose(t.Context(), meta.SetNodeIntent{ID: drains, Intent: meta.IntentDrain}); err != nil {
					t.Fatal(err)
				}
				left := func() (n int) {
					for _, p := range w.node("n3").Store().Topic("t").Partitions {
						if p.Leader == drains {
							n++
						}
					}
					return n
				}
				w.sleep(leaderTransferGiveUp - time.Second)
				if n := left(); n != test.partitions {
					t.Errorf("%d of %d partitions are led by the node that drains", n, test.partitions)
				}
				w.sleep(5 * time.Second)
				if n := left(); n != 0 {
					t.Errorf("%d of %d partitions are still led by the node that drains", n, test.partitions)
				}
			})
		})
	}
}

func TestUrgentElectionsAskNoLeader(t *testing.T) {
	var s meta.State
	for i, c := range []meta.Command{
		meta.NodeStarted{Node: meta.Node{ID: "n1"}},
		meta.NodeStarted{Node: meta.Node{ID: "n2"}},
		meta.CreateTopic{
			Name: "t", Config: meta.TopicConfig{Partitions: 3, Replicas: 2}.WithDefaults(2, false),
			Assignment: [][]meta.NodeID{{"n1", "n2"}, {"n2", "n1"}, {"n1", "n2"}},
		},
		meta.SetNodeState{ID: "n2", State: meta.NodeDown},
		meta.ElectLeaders{Elections: []meta.Election{{Topic: "t", Partition: 2, Version: 1}}},
	} {
		if r := s.Apply(uint64(i+1), c); r.Err != nil || r.Failed != nil {
			t.Fatal(r)
		}
	}
	for _, test := range []struct {
		what   string
		e      meta.Election
		gentle bool
	}{
		{"the leader is up", meta.Election{Topic: "t", Partition: 0, Leader: "n2"}, true},
		{"to itself", meta.Election{Topic: "t", Partition: 0, Leader: "n1"}, false},
		{"to nobody", meta.Election{Topic: "t", Partition: 0}, false},
		{"unclean", meta.Election{Topic: "t", Partition: 0, Leader: "n2", Unclean: true}, false},
		{"the leader is down", meta.Election{Topic: "t", Partition: 1, Leader: "n1"}, false},
		{"there is no leader", meta.Election{Topic: "t", Partition: 2, Leader: "n1"}, false},
		{"there is no such partition", meta.Election{Topic: "t", Partition: 3, Leader: "n1"}, false},
		{"there is no such topic", meta.Election{Topic: "u", Leader: "n1"}, false},
	} {
		urgent, gentle := split(&s, []meta.Election{test.e})
		if len(gentle) == 1 != test.gentle || len(urgent)+len(gentle) != 1 {
			t.Errorf("%s: urgent %v, gentle %v", test.what, urgent, gentle)
		}
	}
}

// A leader that does not answer delays nobody's death.
func TestDeathInterruptsTransfer(t *testing.T) {
	inWorld(t, three, 3, func(t *testing.T, w *world) {
		hang := make(chan struct{})
		w.operate = func(string, forward.Operate) error { <-hang; return nil }
		w.start(three...)
		w.formed(3, 3)
		leads := w.leader().name
		var others []string
		for _, name := range three {
			if name != leads {
				others = append(others, name)
			}
		}
		drains, dies := meta.NodeID(others[0]), meta.NodeID(others[1])
		w.topic("t", []meta.NodeID{drains, meta.NodeID(leads)}, []meta.NodeID{dies, meta.NodeID(leads)})
		w.sleep(3 * time.Second)
		if _, err := w.node(leads).Store().Propose(t.Context(), meta.SetNodeIntent{ID: drains, Intent: meta.IntentDrain}); err != nil {
			t.Fatal(err)
		}
		w.sleep(100 * time.Millisecond)
		if err := w.kill(string(dies)); err != nil {
			t.Fatal(err)
		}
		took := w.await("another leads", func() bool { return w.partition(leads, "t", 1).Leader == meta.NodeID(leads) })
		if took > 200*time.Millisecond {
			t.Errorf("took %v", took)
		}
		close(hang)
	})
}

// TestFailedTransferRequestsAreBounded: only failed requests that follow each other count, and a
// leader that answers anything is not silent.
func TestFailedTransferRequestsAreBounded(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	late, cancel := context.WithDeadline(t.Context(), begin)
	defer cancel()
	ask1, ask2 := ask{"n1", meta.PartitionID{Topic: "t"}, 1}, ask{"n1", meta.PartitionID{Topic: "t", Partition: 1}, 1}
	type step struct {
		after time.Duration
		a     ask
		ctx   context.Context //nolint:containedctx // of the request
		err   error
		ends  bool
	}
	const half = leaderTransferGiveUp / 2
	for name, steps := range map[string][]step{
		"silent for long": {
			{0, ask1, late, context.DeadlineExceeded, false},
			{half, ask2, late, context.DeadlineExceeded, false},
			{half, ask2, late, context.DeadlineExceeded, true},
		},
		"silent, an answer, and silent again": {
			{0, ask1, late, context.DeadlineExceeded, false},
			{half, ask2, t.Context(), failure.Moving, false},
			{half - 1, ask2, late, context.DeadlineExceeded, false},
			{half, ask{leader: "n1", of: meta.PartitionID{Topic: "u"}}, late, context.DeadlineExceeded, false},
		},
		"refused for long": {
			{0, ask1, t.Context(), failure.Moving, false},
			{half, ask1, t.Context(), failure.StaleVersion, false},
			{half, ask1, t.Context(), failure.Moving, true},
		},
		"refused long ago": {
			{0, ask1, t.Context(), failure.Moving, false},
			{leaderTransferGiveUp + 1, ask1, t.Context(), failure.Moving, false},
			{leaderTransferGiveUp, ask1, t.Context(), failure.Moving, true},
		},
		"refused for good": {{0, ask1, t.Context(), failure.TopicNotFound, true}},
	} {
		var p transferTries
		now := begin
		for i, s := range steps {
			now = now.Add(s.after)
			if got := p.ends(s.ctx, s.err, s.a, now); got != s.ends {
				t.Errorf("%s: step %d ends the patience: %v, want %v", name, i, got, s.ends)
			}
		}
	}
}
