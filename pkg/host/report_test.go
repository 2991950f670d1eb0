package host

import (
	"testing"

	"github.com/brokerd/brokerd/pkg/meta"
)

// TestAReportReplacesTheOneInProgress has something else to say of a replica, in whatever moment of
// an earlier report: it is said, too.
func TestAReportReplacesTheOneInProgress(t *testing.T) {
	q, key := &suspicion{}, suspectKey{1, 2}
	cut, damaged := meta.Suspect{Node: "n1", End: 7}, meta.Suspect{Node: "n1", End: 7, Damaged: true}
	if q.want(key, cut) {
		t.Error("the first report finds another in progress")
	}
	if s := q.wanted(key); s != cut {
		t.Errorf("%+v is reported", s)
	}
	if !q.want(key, damaged) {
		t.Error("the second report does not find the first")
	}
	if q.done(key, cut) {
		t.Error("the first report ends, and nobody reports the second")
	}
	if s := q.wanted(key); s != damaged {
		t.Errorf("%+v is reported", s)
	}
	if !q.done(key, damaged) || q.want(key, cut) {
		t.Error("a report that has been made is in progress")
	}
}

// TestAReplicaThatWasCutMayBeDamagedToo has damage found in a replica that is suspect: it has to be
// copied again.
func TestAReplicaThatWasCutMayBeDamagedToo(t *testing.T) {
	for was, first := range map[condition]bool{intact: true, suspected: true, damaged: false, missing: false} {
		hp := &Held{}
		hp.state.Store(int32(was))
		if got := hp.spoil(); got != first || first && condition(hp.state.Load()) != damaged {
			t.Errorf("from %d: first %t, now %d", was, got, hp.state.Load())
		}
	}
}
