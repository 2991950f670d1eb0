package topic

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/seq"
)

// TestOlderSnapshotOfNewLeaderUndoesNothing: the last checkpoint of a leader
// reached one follower and not the one that leads next.
func TestOlderSnapshotOfNewLeaderUndoesNothing(t *testing.T) {
	for _, many := range []int{0, 1} {
		s := newSetThatUpdates(t, many)
		c := s.channel("c", 1, false)
		s.p.ChannelsComplete()
		r := s.bench().join(c)
		s.publish("a", "b", "c", "d", "e")
		s.line.deliverAll()
		r.take(9, t0)
		r.finish("a", "b", "d")
		if err := s.p.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		for s.line.deliver(1) {
		}
		s.lead(2)
		r = s.bench().join(s.channel("c", 1, false))
		s.p.ChannelsComplete()
		s.line.deliverAll()
		want(t, "who does not know delivers", r.take(9, t0), "a b c d e")
		if err := r.Requeue(r.got["d"], t0, 1); err != nil {
			t.Fatal(err)
		}
		s.p.dirty.mark()
		for range 2 { // the second one is of the same leader
			if err := s.p.Checkpoint(); err != nil {
				t.Fatal(err)
			}
			s.line.deliverAll()
			s.p.dirty.mark()
		}
		s.lead(1)
		want(t, "who knew", s.bench().join(s.channel("c", 1, false)).take(9, t0), "c e")
	}
}

// TestOperatorsMoveBackReachesReplicasThatKnewMore: a replica does not mistake a move
// for an older snapshot.
func TestOperatorsMoveBackReachesReplicasThatKnewMore(t *testing.T) {
	for _, many := range []int{0, 1} {
		s := newSetThatUpdates(t, many)
		c := s.channel("c", 1, false)
		r := s.bench().join(c)
		s.publish("a", "b", "c")
		s.line.deliverAll()
		r.take(9, t0)
		r.finish("a", "b", "c")
		if err := s.p.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		s.line.deliverAll()
		if err := c.Seek(1); err != nil {
			t.Fatal(err)
		}
		s.line.deliverAll()
		s.lead(1)
		want(t, "the next leader", s.bench().join(s.channel("c", 1, false)).take(9, t0), "b c")
	}
}

// TestPositionsBeyondTruncationAreForgotten: a follower that knew messages as
// finished loses them to an operator's election. Other messages take their
// offsets.
func TestPositionsBeyondTruncationAreForgotten(t *testing.T) {
	m := positionsFS(t)
	s := mustOpenStandby(t, m)
	at := func(p channel.Position) Snapshot {
		return Snapshot{Channels: []ChannelPosition{{Name: "c", Version: 1, Position: p}}}
	}
	known := channel.Position{Floor: 40, Finished: []channel.Range{{From: 45, End: 60}}}
	if err := s.Replace(told(t, uint64(stampOf(1, 1)), at(known))); err != nil {
		t.Fatal(err)
	}
	if err := s.Cut(50); err != nil {
		t.Fatal(err)
	}
	if err := s.Replace(told(t, uint64(stampOf(2, 1)), at(channel.Position{Floor: 30}))); err != nil {
		t.Fatal(err)
	}
	_, got := mustOpenPositions(t, m)
	wanted := channel.Position{Floor: 40, Finished: []channel.Range{{From: 45, End: 50}}}
	if diff := cmp.Diff(wanted, got.Channels[0].Position); diff != "" {
		t.Error(diff)
	}
	if err := s.Cut(20); err != nil {
		t.Fatal(err)
	}
	// The same leader sends it again, in its new session.
	if err := s.Replace(told(t, uint64(stampOf(2, 1)), at(channel.Position{Floor: 25}))); err != nil {
		t.Fatal(err)
	}
	if got := s.Floor(); got != seq.Offset(25) {
		t.Errorf("floor %d, want 25", got)
	}
}
