package replication

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A follower with a full disk accepts no batches, but learns the committed end. Its
// leader reports the reason, and the follower continues when there is room.
func TestFollowerWithFullDiskRefusesBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newReplica(t, "a"), newReplica(t, "b")
		var full atomic.Bool
		x := lead(t, a, 1, []*replica{b}, instant)
		defer x.stop()
		if err := b.follower.Adopt(Following{Epoch: 1, Full: full.Load}); err != nil {
			t.Fatal(err)
		}
		x.reps[0].Connected()
		x.append(t, 4, "m")
		time.Sleep(time.Second)
		full.Store(true)
		a.log.Commit(4)
		x.append(t, 3, "m")
		time.Sleep(5 * time.Second)
		if b.log.End() != 4 || b.log.CommittedEnd() != 4 {
			t.Errorf("it holds %d and knows %d as committed, want 4 of both", b.log.End(), b.log.CommittedEnd())
		}
		if s, _, why := x.reps[0].State(); s != failed || !strings.Contains(why, "disk is full") {
			t.Errorf("%v: %q", s, why)
		}
		full.Store(false)
		time.Sleep(5 * time.Second)
		if s, _, why := x.reps[0].State(); s != replicating || why != "" || b.log.End() != 7 {
			t.Errorf("with room it holds %d; %v: %q", b.log.End(), s, why)
		}
	})
}
