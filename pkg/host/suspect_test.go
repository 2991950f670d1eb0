package host

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/quarantine"
)

// TestTruncatedReplicaMayBeDamaged finds damage in a suspect replica: it has to be copied
// again.
func TestTruncatedReplicaMayBeDamaged(t *testing.T) {
	for was, first := range map[condition]bool{intact: true, suspected: true, damaged: false, missing: false} {
		hp := &Held{}
		hp.state.Store(int32(was))
		if got := hp.markDamaged(); got != first || first && condition(hp.state.Load()) != damaged {
			t.Errorf("from %d: first %t, now %d", was, got, hp.state.Load())
		}
	}
}

// TestRefusedAppendsAreHandledAgain while they go on: at first no other replica may have been in sync.
func TestRefusedAppendsAreHandledAgain(t *testing.T) {
	r := &roleErrors{appends: map[meta.PartitionID]appendRefusal{}}
	now := time.Unix(1000, 0)
	for _, step := range []struct {
		after         time.Duration
		first, handle bool
	}{
		{0, true, true},
		{quarantine.Retry / 2, false, false},
		{quarantine.Retry / 2, false, true},
		{refusalsShown, false, true},
		{refusalsShown + 1, true, true},
	} {
		now = now.Add(step.after)
		if first, handle := r.refused(meta.PartitionID{Topic: "t"}, now); first != step.first || handle != step.handle {
			t.Errorf("%v later: first %v, handle %v", step.after, first, handle)
		}
	}
}
