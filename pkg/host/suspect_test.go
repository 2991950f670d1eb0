package host

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

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
	q, h := &suspicion{dirs: dirs}, &Topic{fs: fsys}
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
		if got, err := q.marked(h, of, c.partition, c.before, c.found); got != c.want || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// TestRefusedAppendsAreHandledAgain while they go on: at first no other replica may have been in sync.
func TestRefusedAppendsAreHandledAgain(t *testing.T) {
	r := &roleErrors{appends: map[roleKey]appendRefusal{}}
	now := time.Unix(1000, 0)
	for _, step := range []struct {
		after         time.Duration
		first, handle bool
	}{
		{0, true, true},
		{transferAwayRetry / 2, false, false},
		{transferAwayRetry / 2, false, true},
		{refusalsShown, false, true},
		{refusalsShown + 1, true, true},
	} {
		now = now.Add(step.after)
		if first, handle := r.refused(roleKey{topic: "t"}, now); first != step.first || handle != step.handle {
			t.Errorf("%v later: first %v, handle %v", step.after, first, handle)
		}
	}
}
