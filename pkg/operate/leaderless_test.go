package operate

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
)

// The states of nodes in the metadata are outdated without a leader: a node that has stopped since is up there.
func TestNothingIsDecidedAboutNodesWithoutALeader(t *testing.T) {
	if err := undecidable(electionTime, []string{"n2"}); err != nil {
		t.Errorf("during an election: %v", err)
	}
	err := undecidable(42*time.Second, []string{"n2", "n3"})
	if !errors.Is(err, failure.NoQuorum) || !strings.Contains(err.Error(), "for 42s: nothing can be created or changed; no answer from n2 n3; the states of nodes are not known") {
		t.Errorf("%v", err)
	}
}

func TestSuccessfulElectionIsNotReported(t *testing.T) {
	for _, gone := range []time.Duration{0, time.Second, electionTime} {
		if r, told := leaderless(gone, []string{"n2"}); told {
			t.Errorf("after %v: %+v", gone, r)
		}
	}
	r, told := leaderless(electionTime+time.Second, []string{"n2", "n3"})
	if !told || r.Code != "no_controller" || !strings.Contains(r.What, "for 4s") || !strings.Contains(r.What, "no answer from n2 n3") {
		t.Errorf("%v, %+v", told, r)
	}
	if r, _ := leaderless(time.Minute, nil); strings.Contains(r.What, "answer") {
		t.Errorf("%+v", r)
	}
}
