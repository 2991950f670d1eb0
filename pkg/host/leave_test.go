package host

import (
	"testing"

	"github.com/brokerd/brokerd/pkg/meta"
)

// TestOnlyTheProcessThatAnnouncedItsStopLeaves: one that is started later is another, and announcements may arrive late.
func TestOnlyTheProcessThatAnnouncedItsStopLeaves(t *testing.T) {
	var l leavers
	leaves := func(id meta.NodeID, incarnation uint64) bool {
		return l.has(&meta.Node{ID: id, Incarnation: incarnation})
	}
	if leaves("n2", 7) {
		t.Error("n2 leaves without a word")
	}
	l.add("n2", 7)
	if !leaves("n2", 7) || leaves("n3", 7) {
		t.Error("n2 announced its stop, and no other")
	}
	if leaves("n2", 8) {
		t.Error("n2 was started again")
	}
	l.add("n2", 8)
	l.add("n2", 7) // late
	if !leaves("n2", 8) {
		t.Error("a late announcement replaced the one of a later process")
	}
}
