package topic

import "testing"

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
		s.p.keeper.MarkDirty()
		for range 2 { // the second one is of the same leader
			if err := s.p.Checkpoint(); err != nil {
				t.Fatal(err)
			}
			s.line.deliverAll()
			s.p.keeper.MarkDirty()
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
