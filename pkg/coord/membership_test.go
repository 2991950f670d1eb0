package coord

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord/replication"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// silent are peers that do not answer. The test supplies the followers'
// answers.
type silent struct{}

func (silent) Follow(meta.NodeID, LinkEvents) Link     { return silent{} }
func (silent) Go(uint8, [][]byte, func([]byte, error)) {}
func (silent) Close()                                  {}

// says reports to the term, in a session, what a follower holds.
func (w watch) says(session uint64, end seq.Offset, shares uint64) {
	w.acked(replication.Progress{Session: session, End: end, Shares: shares, At: time.Now()})
}

func viewOf(version uint64, isr ...meta.NodeID) View { return viewOfLives(version, 1, isr...) }

// viewOfLives returns a view of three replicas that n1 leads, with the number
// of each node's life.
func viewOfLives(version, life uint64, isr ...meta.NodeID) View {
	v := View{Epoch: 2, Version: version, Leader: "n1", ISR: isr, MinISR: 1, Sync: meta.SyncAlways()}
	for _, n := range []meta.NodeID{"n1", "n2", "n3"} {
		v.Replicas = append(v.Replicas, ReplicaView{Node: n, Incarnation: life})
	}
	return v
}

// inherited returns a log of n batches of epoch 1, none of them known to be
// committed.
func inherited(t *testing.T, n int) *commitlog.Log {
	t.Helper()
	l, _, err := commitlog.Open(vfs.NewMem(), "p", commitlog.Options{FillBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	w, err := l.Writer(1)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		b := new(commitlog.Builder)
		clear(b.Next(10))
		if _, err := w.Append(b, 1); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// leadSilently begins a term over a log of n inherited batches, and returns it with
// the answers of n2 and n3.
func leadSilently(t *testing.T, n int, v View, propose func(*Term, ISRChange)) (term *Term, n2, n3 watch) {
	t.Helper()
	l := inherited(t, n)
	term, err := lead(termOptions{
		ReplicaOptions: ReplicaOptions{Self: "n1", Peers: silent{}, ProposeISR: propose}, Log: l, View: v, Committed: func(commitlog.Batch) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := term.Stop(); err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	followers := term.members.followers()
	return term, watch{term, followers[0]}, watch{term, followers[1]}
}

// counted returns the end up to which the term counts a node's entries.
func (t *Term) counted(n meta.NodeID) (end seq.Offset, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.members.tracker.Acked(n)
}

// TestInheritedEntriesAreCommittedByAllInSync: holding an entry is not the same
// as knowing that it is committed. Each member must report in this term that it
// holds the entry.
func TestInheritedEntriesAreCommittedByAllInSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term, n2, _ := leadSilently(t, 3, viewOf(1, "n1", "n2"), nil)
		if got := term.o.Log.CommittedEnd(); got != 0 {
			t.Fatalf("committed up to %d at sight", got)
		}
		n2.up()
		n2.forget(1)
		n2.says(1, 2, 0)
		if got := term.o.Log.CommittedEnd(); got != 2 {
			t.Errorf("committed up to %d, n2 holds 2", got)
		}
		n2.says(1, 3, 0)
		if got := term.o.Log.CommittedEnd(); got != 3 {
			t.Errorf("committed up to %d, n2 holds 3", got)
		}
	})
}

// TestAcknowledgementsCountInTheirSession: a late answer of an ended session or
// process does not count, and the end of a session discards what was learned in it.
func TestAcknowledgementsCountInTheirSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term, n2, _ := leadSilently(t, 3, viewOf(1, "n1", "n2"), nil)
		n2.up()
		n2.forget(1)
		n2.says(1, 2, 0)
		if end, known := term.counted("n2"); end != 2 || !known {
			t.Fatalf("n2 counts with %d, %v", end, known)
		}
		n2.forget(2)
		if end, known := term.counted("n2"); known {
			t.Errorf("a new session: n2 counts with %d", end)
		}
		n2.says(1, 3, 0)
		if end, known := term.counted("n2"); known {
			t.Errorf("a late answer of the session before: n2 counts with %d", end)
		}
		n2.says(2, 1, 0)
		if end, known := term.counted("n2"); end != 1 || !known {
			t.Fatalf("n2 counts with %d, %v", end, known)
		}
		term.Update(viewOfLives(1, 2, "n1", "n2"))
		if end, known := term.counted("n2"); known {
			t.Errorf("n2 is another process: it counts with %d", end)
		}
		n2.says(2, 3, 0)
		if end, known := term.counted("n2"); known {
			t.Errorf("a late answer of the process before: n2 counts with %d", end)
		}
		if got := term.o.Log.CommittedEnd(); got != 2 {
			t.Errorf("committed up to %d, n2 once held 2", got)
		}
	})
}

// TestJoinerIsProposedOnceComplete: everything below the start
// of the term, committed or not, and the positions. From then on it counts.
func TestJoinerIsProposedOnceComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []ISRChange
		term, n2, n3 := leadSilently(t, 3, viewOf(1, "n1", "n2"), func(_ *Term, c ISRChange) { asked = append(asked, c) })
		wants := func(what string, joiner meta.NodeID) {
			t.Helper()
			term.Tick(time.Now(), time.Now())
			got := meta.NodeID("")
			if len(asked) > 0 {
				got = asked[0].Joiner
			}
			if got != joiner {
				t.Fatalf("%s: joins %q, want %q", what, got, joiner)
			}
		}
		term.SharePositions([]byte("positions"), nil)
		last, _ := term.shares.Last()
		n2.up()
		n2.forget(1)
		n2.says(1, 1, last) // so no more than that is committed
		n3.up()
		n3.forget(1)
		wants("it has said nothing", "")
		n3.says(1, 2, last)
		n3.f.heldAll(time.Now())
		wants("it lacks what the term inherited", "")
		n3.forget(2)
		n3.says(2, 3, 0)
		wants("it lacks the positions", "")
		term.mu.Lock()
		n3.f.began++ // the session is with a life of the node that metadata does not know
		term.mu.Unlock()
		n3.f.holds.Shares = last
		wants("its life is another", "")
		term.mu.Lock()
		n3.f.began--
		term.mu.Unlock()
		n3.says(2, 3, last)
		wants("it holds all", "n3")
		if !slices.Equal(asked[0].ISR, []meta.NodeID{"n1", "n2", "n3"}) || asked[0].Incarnation != 1 {
			t.Errorf("asked for %+v", asked[0])
		}
		term.mu.Lock()
		counts := term.members.tracker.Counts("n3")
		term.mu.Unlock()
		if !counts {
			t.Error("n3 is proposed and does not count")
		}
		time.Sleep(time.Second)
		n2.says(1, 1, last)
		if age := time.Since(term.Confirmed()); age != time.Second {
			t.Errorf("recognised %v ago, and the joiner has said nothing for a second", age)
		}
	})
}

// TestAnswersFromBeforeLeavingDoNotCount: a follower that has left the in-sync set may have lost
// what it reported. An answer on its way counts for nothing, and no set is proposed for it.
func TestAnswersFromBeforeLeavingDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []ISRChange
		term, n2, _ := leadSilently(t, 3, viewOf(1, "n1", "n2", "n3"), func(_ *Term, c ISRChange) { asked = append(asked, c) })
		n2.up()
		n2.forget(1)
		n2.says(1, 2, 0)
		term.mu.Lock()
		term.members.apply(viewOf(2, "n1", "n3")) // and its new session has not begun
		term.mu.Unlock()
		n2.says(1, 3, 0)
		if end, known := term.counted("n2"); known {
			t.Errorf("an answer from before: n2 counts with %d", end)
		}
		n2.f.heldAll(time.Now())
		term.Tick(time.Now(), time.Now())
		if len(asked) > 0 {
			t.Errorf("asked for %+v", asked[0])
		}
		n2.forget(2)
		n2.says(2, 3, 0)
		if end, known := term.counted("n2"); end != 3 || !known {
			t.Errorf("in its new session n2 counts with %d, %v", end, known)
		}
	})
}

// TestOlderViewChangesNothing: views may arrive late. A set that was replaced must not count again.
func TestOlderViewChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term, n2, n3 := leadSilently(t, 3, viewOf(2, "n1", "n2", "n3"), nil)
		term.Update(viewOf(1, "n1", "n2"))
		if isr := term.members.view.ISR; len(isr) != 3 {
			t.Errorf("after an older view %v are in sync", isr)
		}
		for _, n := range []watch{n2, n3} {
			if got := term.o.Log.CommittedEnd(); got != 0 {
				t.Errorf("committed up to %d before %s has answered", got, n.f.node)
			}
			n.up()
			n.forget(1)
			n.says(1, 3, 0)
		}
		if got := term.o.Log.CommittedEnd(); got != 3 {
			t.Errorf("committed up to %d, want 3", got)
		}
	})
}
