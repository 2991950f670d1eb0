package operate

import (
	"strings"
	"testing"
	"time"
)

func TestAnElectionThatGoesWellIsNoNews(t *testing.T) {
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
