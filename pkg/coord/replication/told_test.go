package replication

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

func TestBusyFollowerLearnsTheCommittedEndWithBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const every, rest = 100 * time.Millisecond, 350 * time.Millisecond
		a, b := newReplica(t, "a"), newReplica(t, "b")
		x := lead(t, a, 1, []*replica{b}, instant)
		defer x.stop()
		x.reps[0].Connected()
		time.Sleep(time.Second)
		before := x.links[0].sent()
		for i := range 10 {
			x.append(t, 1, "m")
			time.Sleep(every / 2)
			a.log.Commit(seq.Offset(i + 1)) //nolint:gosec // small
			time.Sleep(every / 2)
			x.reps[0].Tell(false, rest)
		}
		if n := x.links[0].sent() - before; n != 10 {
			t.Fatalf("10 batches, one every %v, were sent in %d puts", every, n)
		}
		if got := b.log.CommittedEnd(); got != 9 {
			t.Fatalf("the follower knows %d as committed, want 9: what its last batch brought", got)
		}
		time.Sleep(rest)
		x.reps[0].Tell(false, rest)
		time.Sleep(every)
		if got := b.log.CommittedEnd(); got != 10 {
			t.Fatalf("the follower knows %d as committed after a rest, want 10", got)
		}
		for range 10 {
			time.Sleep(rest)
			x.reps[0].Tell(false, rest)
		}
		if n := x.links[0].sent() - before; n != 11 {
			t.Fatalf("a follower that knows everything was sent %d more puts", n-11)
		}
	})
}
