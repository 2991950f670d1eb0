package replication

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// appendTexts appends a batch of one record for each text.
func appendTexts(t *testing.T, l *commitlog.Log, epoch seq.Epoch, texts ...string) {
	t.Helper()
	w, err := l.Writer(epoch)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		b := new(commitlog.Builder)
		copy(b.Next(len(text)), text)
		if _, err := w.Append(b, 1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Sync(); err != nil {
		t.Fatal(err)
	}
}

// ask sends a request to a follower and returns its answer.
func ask(t *testing.T, f *Follower, kind uint8, request []byte) answer {
	t.Helper()
	got := make(chan []byte, 1)
	f.Handle(nil, kind, bytes.Clone(request), func(r []byte) { got <- r })
	a, err := decodeAnswer(<-got)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestFollowerComparesWhatItHoldsByContent: batches with the same epoch and
// offset may differ.
func TestFollowerComparesWhatItHoldsByContent(t *testing.T) {
	leader, f := newReplica(t, "leader"), newReplica(t, "follower")
	appendTexts(t, leader.log, 1, "a", "b", "c")
	appendTexts(t, f.log, 1, "a", "b")
	if err := f.follower.Adopt(Following{Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	other := newReplica(t, "other")
	appendTexts(t, other.log, 1, "x")
	batch := func(r *replica, at seq.Offset) commitlog.Batch {
		b, err := batchAt(r.log, at)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	a, b, c, x := batch(leader, 0), batch(leader, 1), batch(leader, 2), batch(other, 0)
	head := header{Partition{1, 0}, 1}
	wrong := pointOf(b)
	wrong.Checksum++
	older := pointOf(b)
	older.Epoch++
	raws := func(all ...commitlog.Batch) (out []byte) {
		for _, b := range all {
			out = append(out, b.Raw()...)
		}
		return out
	}
	for _, tc := range []struct {
		name    string
		prev    point
		batches []byte
		want    outcome
	}{
		{"all of it is a duplicate", point{}, raws(a, b), outcomeOK},
		{"the first of two duplicates differs", point{}, raws(x, b), outcomeMismatch},
		{"what it continues has another checksum", wrong, raws(c), outcomeMismatch},
		{"what it continues has another epoch", older, raws(c), outcomeMismatch},
		{"it continues the log", pointOf(b), raws(c), outcomeOK},
	} {
		m := put{header: head, prev: tc.prev, sync: true}
		if got := ask(t, f.follower, KindPut, append(m.appendHead(nil), tc.batches...)); got.outcome != tc.want {
			t.Errorf("%s: outcome %v, want %v", tc.name, got.outcome, tc.want)
		}
	}
	same(t, leader, f)
	wrong = pointOf(a)
	wrong.Checksum++
	if got := ask(t, f.follower, KindTruncate, truncate{header: head, to: wrong}.encode()); got.outcome != outcomeMismatch || got.end != 3 {
		t.Errorf("a cut behind a batch with another checksum: %+v", got)
	}
	if got := ask(t, f.follower, KindTruncate, truncate{header: head, to: pointOf(a)}.encode()); got.outcome != outcomeOK || got.end != 1 {
		t.Errorf("a cut behind the same batch: %+v", got)
	}
}

// TestLogsThatDifferInsideAnEpochConverge: the search for the point of
// divergence goes back batch by batch if the epochs do not show it.
func TestLogsThatDifferInsideAnEpochConverge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newReplica(t, "a"), newReplica(t, "b")
		appendTexts(t, a.log, 1, "same", "two", "three", "four")
		appendTexts(t, b.log, 1, "same", "2", "3", "4", "5")
		x := lead(t, a, 1, []*replica{b}, instant)
		defer x.stop()
		x.reps[0].Connected()
		time.Sleep(10 * time.Second)
		same(t, a, b)
	})
}

// TestAdoptedEpochSurvivesPowerLoss: a follower that has answered in an epoch
// refuses older leaders after it lost power, too.
func TestAdoptedEpochSurvivesPowerLoss(t *testing.T) {
	disk := vfs.NewCrashable()
	if err := vfs.MkdirAllSynced(disk, "p"); err != nil {
		t.Fatal(err)
	}
	l, _, err := commitlog.Open(disk, "p", commitlog.Options{FillBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	appendTexts(t, l, 1, "a")
	f := NewFollower(l, limit.Default().Put, func(err error) { t.Error(err) }, nil)
	if err := f.Adopt(Following{Epoch: 5}); err != nil {
		t.Fatal(err)
	}
	after := disk.CrashClone(vfs.Crash{})
	f.Close()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, _, err = commitlog.Open(after, "p", commitlog.Options{FillBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f = NewFollower(l, limit.Default().Put, func(err error) { t.Error(err) }, nil)
	defer f.Close()
	if err := f.Adopt(Following{Epoch: 4}); !errors.Is(err, commitlog.ErrFenced) {
		t.Errorf("the leader of epoch 4 is followed after epoch 5 was adopted: %v", err)
	}
}

// TestEndedSessionLeavesNoState: a follower's answers count only in their
// session.
func TestEndedSessionLeavesNoState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newReplica(t, "a"), newReplica(t, "b")
		x := lead(t, a, 1, []*replica{b}, instant)
		defer x.stop()
		x.reps[0].Connected()
		x.append(t, 4, "m")
		time.Sleep(time.Second)
		if _, p, _ := x.reps[0].State(); p.End != 4 {
			t.Fatalf("the follower holds %d of 4", p.End)
		}
		x.reps[0].Disconnected()
		if s, p, _ := x.reps[0].State(); s != disconnected || p.End != 0 || !p.At.IsZero() {
			t.Errorf("after the session: %v %+v", s, p)
		}
	})
}

// failingSyncs is a disk whose syncs of data fail once failing is set.
func failingSyncs(failing *bool) vfs.FS {
	disk := vfstest.NewFaulty(vfs.NewMem())
	disk.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Kind == vfs.OpSyncData && *failing {
			return vfstest.Fault{Err: errors.New("I/O error")}
		}
		return vfstest.Fault{}
	})
	return disk
}

// TestFollowerAcknowledgesNothingAfterFailedSync: neither the put that requested
// the sync nor the puts that would have shared it. None of it counts as committed here, whatever
// the leader knows.
func TestFollowerAcknowledgesNothingAfterFailedSync(t *testing.T) {
	leader := newReplica(t, "leader")
	appendTexts(t, leader.log, 1, "a")
	failing := false
	disk := failingSyncs(&failing)
	if err := disk.MkdirAll("p"); err != nil {
		t.Fatal(err)
	}
	l, _, err := commitlog.Open(disk, "p", commitlog.Options{FillBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 8)
	f := NewFollower(l, limit.Default().Put, func(err error) { failed <- err }, nil)
	if err := f.Adopt(Following{Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	failing = true
	raw, err := leader.log.ReadRaw(0, 1<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := ask(t, f, KindPut, append(put{header: header{Partition{1, 0}, 1}, committed: 1, sync: true}.appendHead(nil), raw...))
	if got.outcome == outcomeOK {
		t.Errorf("acknowledged without a sync: %+v", got)
	}
	if err := <-failed; err == nil {
		t.Error("the failure is not told")
	}
	if got := l.CommittedEnd(); got != 0 {
		t.Errorf("committed up to %d here, and nothing is known to be on the disk", got)
	}
	f.Close()
	_ = l.Close() // it has failed
}
