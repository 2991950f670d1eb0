package host

import (
	"testing"

	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/meta"
)

// TestReportReplacesTheOneInProgress makes a second report on a replica at any moment of the first
// one: both are sent.
func TestReportReplacesTheOneInProgress(t *testing.T) {
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
		t.Error("the first report ends, and the second is not sent")
	}
	if s := q.wanted(key); s != damaged {
		t.Errorf("%+v is reported", s)
	}
	if !q.done(key, damaged) || q.want(key, cut) {
		t.Error("a report that has been made is in progress")
	}
}

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

// TestLeaderThatCannotYieldBeginsNewEpoch moves a replica that holds more to another node before the
// leader yields to it.
func TestLeaderThatCannotYieldBeginsNewEpoch(t *testing.T) {
	h, y := &Topic{Name: "t", Incarnation: 3}, coord.Yield{Epoch: 4, To: "n2", LastEpoch: 2, End: 9}
	p := &meta.Partition{Leader: "n1", ISR: []meta.NodeID{"n1", "n3"}, Version: 7}
	if c, ok := yielding(h, 1, y, p, false).(meta.YieldLeader); !ok || c.To != "n2" || c.Epoch != 4 || c.Partition != 1 {
		t.Errorf("at first: %+v", c)
	}
	for suspect, want := range map[bool]meta.NodeID{false: "n1", true: ""} {
		if p.Suspects = nil; suspect {
			p.Suspects = []meta.Suspect{{Node: "n1"}}
		}
		c, ok := yielding(h, 1, y, p, true).(meta.ElectLeaders)
		if !ok || len(c.Elections) != 1 || c.Elections[0].Leader != want || c.Elections[0].Version != 7 {
			t.Errorf("suspect %t: %+v", suspect, c)
		}
	}
}
