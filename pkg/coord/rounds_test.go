package coord

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/redo"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// newJournaledRig is newRig with a redo journal for every sync. Its log takes part in rounds.
func newJournaledRig(t *testing.T, inner vfs.FS) (*rig, *redo.FS) {
	t.Helper()
	r := &rig{t: t, fs: vfstest.NewFaulty(inner), failed: make(chan error, 8)}
	journal, _, err := redo.Open(r.fs, redo.Options{Root: ".", Dir: "journal", Together: 1, FileBytes: 1 << 20, Age: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	r.open(journal, meta.SyncAlways())
	for range 3 { // a new file's first sync is direct, and the second has the journal made
		if err := <-r.put(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
	}
	if !r.replica.Term().w.Join(nothing{}) {
		t.Fatal("the log takes no part in rounds")
	}
	synctest.Wait()
	return r, journal
}

// nothing is a member without anything to write.
type nothing struct{}

func (nothing) Write(*vfs.Gathering) vfs.Sync { return nil }
func (nothing) Synced(*vfs.Gathering, error)  {}

// onJournal disturbs one kind of operation on the journal's files.
func onJournal(kind vfs.OpKind, f vfstest.Fault) func(int64, vfs.Op) vfstest.Fault {
	return func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Kind == kind && strings.HasPrefix(op.Name, "journal") {
			return f
		}
		return vfstest.Fault{}
	}
}

func TestArrivalsDuringRoundFormOneBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, journal := newJournaledRig(t, vfs.NewMem())
		r.batches = nil
		hang := make(chan struct{})
		r.fs.Decide(onJournal(vfs.OpSyncData, vfstest.Fault{Hang: hang}))
		all := []<-chan error{r.put()}
		synctest.Wait()
		for range 100 {
			all = append(all, r.put())
		}
		synctest.Wait()
		if l := r.replica.Log(); l.End() != 4 || l.DurableEnd() != 3 || l.CommittedEnd() != 3 || len(all[0]) > 0 {
			t.Errorf("before the sync: end %d, durable %d, committed %d, settled %d", l.End(), l.DurableEnd(), l.CommittedEnd(), len(all[0]))
		}
		close(hang)
		for _, c := range all {
			if err := <-c; err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if got := fmt.Sprint(r.batches); got != "[1 100]" {
			t.Errorf("batches of %s, want [1 100]", got)
		}
		if l := r.replica.Log(); l.DurableEnd() != 104 || l.CommittedEnd() != 104 {
			t.Errorf("durable %d, committed %d", l.DurableEnd(), l.CommittedEnd())
		}
		r.close()
		if err := journal.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestJournalThatFailsEndsTheTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, journal := newJournaledRig(t, vfs.NewMem())
		r.fs.Decide(onJournal(vfs.OpSyncData, vfstest.Fault{Err: syscall.EIO}))
		if err := <-r.put(); err == nil || fate.Of(err) != fate.Uncertain {
			t.Errorf("settled with %v, fate %v", err, fate.Of(err))
		}
		if err := <-r.failed; !errors.Is(err, syscall.EIO) {
			t.Errorf("failed with %v", err)
		}
		r.fs.Decide(nil)
		if err := <-r.put(); fate.Of(err) != fate.Refused {
			t.Errorf("after it: %v, fate %v", err, fate.Of(err))
		}
		if l := r.replica.Log(); l.CommittedEnd() != 3 || l.DurableEnd() != 3 {
			t.Errorf("committed to %d, durable to %d, want 3", l.CommittedEnd(), l.DurableEnd())
		}
		if err := r.replica.StopLeading(); !errors.Is(err, commitlog.ErrFailed) {
			t.Errorf("stop says %v", err)
		}
		_ = r.replica.Close() // the log has failed
		if err := journal.Close(); !errors.Is(err, syscall.EIO) {
			t.Errorf("the journal closed with %v", err)
		}
	})
}

// TestStopWaitsForARound: accepted entries are settled when Stop returns, even if the sync of
// their round hung when Stop was called.
func TestStopWaitsForARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, journal := newJournaledRig(t, vfs.NewMem())
		hang := make(chan struct{})
		r.fs.Decide(onJournal(vfs.OpSyncData, vfstest.Fault{Hang: hang}))
		first := r.put()
		synctest.Wait()
		second := r.put()
		stopped := make(chan error, 1)
		go func() { stopped <- r.replica.StopLeading() }()
		synctest.Wait()
		if len(stopped) > 0 {
			t.Error("it has stopped before the sync")
		}
		close(hang)
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		for _, told := range []<-chan error{first, second} {
			if len(told) != 1 {
				t.Fatal("an entry was not settled")
			}
			if err := <-told; err != nil { // the term is alone
				t.Error(err)
			}
		}
		r.close()
		if err := journal.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestRoundLeavesWaitingEntriesToOthers runs rounds while the log needs a new segment, and while
// one of its locks is held.
func TestRoundLeavesWaitingEntriesToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, journal := newJournaledRig(t, vfs.NewMem())
		hang := make(chan struct{})
		r.fs.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
			if op.Kind == vfs.OpPreallocate {
				return vfstest.Fault{Hang: hang}
			}
			return vfstest.Fault{}
		})
		told := make(chan error, 1)
		if err := r.replica.Term().Append(&entry{size: 100 << 10, told: func(_ commitlog.Placed, err error) { told <- err }}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(told) > 0 {
			t.Fatal("it needed no more blocks")
		}
		goesOn := make(member, 1)
		if !r.replica.Term().w.Join(goesOn) {
			t.Fatal("the log takes no part in rounds any more")
		}
		<-goesOn // it would hang in the round otherwise
		close(hang)
		if err := <-told; err != nil {
			t.Error(err)
		}
		if err := <-r.put(); err != nil {
			t.Error(err)
		}
		r.close()
		if err := journal.Close(); err != nil {
			t.Error(err)
		}
	})
}

// member reports when a round asks it to write.
type member chan struct{}

func (m member) Write(*vfs.Gathering) vfs.Sync {
	m <- struct{}{}
	return nil
}
func (member) Synced(*vfs.Gathering, error) {}

// TestEveryEntryCompletesOnceInOrderInRounds lets the disk fail below the journal, or the term be
// stopped, at a random moment.
func TestEveryEntryCompletesOnceInOrderInRounds(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprintf("seed%d", seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 2))
			var r *rig
			var journal *redo.FS
			synctest.Test(t, func(t *testing.T) {
				r, journal = newJournaledRig(t, vfs.NewMem())
				r.breakLater(rnd)
				settleRandomly(t, r, rnd, 3)
				_ = r.replica.Close() // fails if the log did
				_ = journal.Close()   // likewise
			})
		})
	}
}
