package quarantine

import (
	"path/filepath"
	"testing"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// TestReportReplacesTheOneInProgress makes a second report on a replica at any moment of the first
// one: both are sent.
func TestReportReplacesTheOneInProgress(t *testing.T) {
	key := meta.PartitionID{Incarnation: 1, Partition: 2}
	q, _ := New(Options{})
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

// TestLeaderThatCannotYieldBeginsNewEpoch moves a replica that holds more to another node before the
// leader yields to it.
func TestLeaderThatCannotYieldBeginsNewEpoch(t *testing.T) {
	id, y := meta.PartitionID{Topic: "t", Incarnation: 3, Partition: 1}, coord.Yield{Epoch: 4, To: "n2", LastEpoch: 2, End: 9}
	p := &meta.Partition{Leader: "n1", ISR: []meta.NodeID{"n1", "n3"}, Version: 7}
	if c, ok := yielding(id, y, p, false).(meta.YieldLeader); !ok || c.To != "n2" || c.Epoch != 4 || c.Partition != 1 {
		t.Errorf("at first: %+v", c)
	}
	for suspect, want := range map[bool]meta.NodeID{false: "n1", true: ""} {
		if p.Suspects = nil; suspect {
			p.Suspects = []meta.Suspect{{Node: "n1"}}
		}
		c, ok := yielding(id, y, p, true).(meta.ElectLeaders)
		if !ok || len(c.Elections) != 1 || c.Elections[0].Leader != want || c.Elections[0].Version != 7 {
			t.Errorf("suspect %t: %+v", suspect, c)
		}
	}
}

// TestReplicaIsMarkedAsSuspectByAnyOfItsStarts has the mark made before the log was opened, or
// because of damage found at the open.
func TestReplicaIsMarkedAsSuspectByAnyOfItsStarts(t *testing.T) {
	fsys := vfs.NewMem()
	dirs := datadir.At(fsys, "data")
	of := &meta.Topic{Name: "t", Incarnation: 1, Partitions: make([]meta.Partition, 2)}
	marked := dirs.Replica(of, 1)
	if err := vfs.MkdirAllSynced(fsys, marked); err != nil {
		t.Fatal(err)
	}
	if err := vfs.MarkSynced(fsys, filepath.Join(marked, datadir.MarkSuspect)); err != nil {
		t.Fatal(err)
	}
	q, _ := New(Options{Dirs: dirs})
	cut := commitlog.Recovery{Cut: []commitlog.Cut{{Bytes: 1}}}
	for name, c := range map[string]struct {
		partition int
		before    []string
		found     commitlog.Recovery
		want      bool
	}{
		"never":             {0, []string{datadir.MarkReplica}, commitlog.Recovery{}, false},
		"at an earlier one": {1, []string{datadir.MarkReplica, datadir.MarkSuspect}, commitlog.Recovery{}, true},
		"at this one":       {1, []string{datadir.MarkReplica}, cut, true},
		"cut without a mark, as there is no other copy": {0, nil, cut, false},
	} {
		if got, err := q.Marked(fsys, of, c.partition, c.before, c.found); got != c.want || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
