package host

import (
	"log/slog"
	"testing"

	"github.com/brokerd/brokerd/internal/logtest"
	"github.com/brokerd/brokerd/pkg/seq"
)

func TestManyLeadershipChangesAreOneLogLine(t *testing.T) {
	var s shifts
	for i := range namedShifts + 2 {
		s.began.add("t", i, seq.Epoch(i+1))
	}
	var j logtest.Journal
	log := slog.New(slog.NewTextHandler(&j, nil))
	s.sumUp(log)
	s.sumUp(log) // nothing since
	if len(j.Lines()) != 1 || !j.Has("count=10", "t/0@1 t/1@2 ", "t/7@8 and 2 more") {
		t.Errorf("got %q", j.Lines())
	}
}
