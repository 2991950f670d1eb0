package simtest

import (
	"fmt"
	"strings"
	"testing"
)

// TestSummaryTellsWhyEachSeedFailed: in one line for a seed, and the last seeds if there are many.
func TestSummaryTellsWhyEachSeedFailed(t *testing.T) {
	s := &Seeds{}
	s.Note(17, "p0-3 is lost\nand a long trace")
	s.Note(5, "missed a time limit")
	s.Note(5, "p0-4 is twice in the log")
	s.noteFailed(17)
	s.noteFailed(6)
	want := "TestX: 3 seeds of note:\nseed 17: p0-3 is lost\nseed 5: p0-4 is twice in the log\nseed 6: failed: its own output tells why"
	if got := s.summary("TestX"); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	for seed := range uint64(100) {
		s.Note(seed, fmt.Sprint("x", seed))
	}
	if got := s.summary("TestX"); strings.Count(got, "\n") != 20 || !strings.HasSuffix(got, "\nseed 99: x99") || !strings.Contains(got, "100 seeds") {
		t.Errorf("of many: %s", got)
	}
}
