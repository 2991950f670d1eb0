package coord

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// entry is a commitlog.Entry of one record that notes how it is settled.
type entry struct {
	size  int
	taken func()
	told  func(commitlog.Placed, error)
}

func (e *entry) Size() int { return commitlog.RecordBytes(e.size) }
func (e *entry) AppendTo(b *commitlog.Builder) {
	clear(b.Next(e.size))
	if e.taken != nil {
		e.taken()
	}
}
func (e *entry) Complete(at commitlog.Placed, err error) { e.told(at, err) }

// rig is a replica on a disk that can be disturbed.
type rig struct {
	t       *testing.T
	fs      *vfstest.Faulty
	replica *Replica
	failed  chan error
	batches []int // counts, as they are committed
}

func newRig(t *testing.T, inner vfs.FS, sync meta.SyncPolicy) *rig {
	t.Helper()
	r := &rig{t: t, fs: vfstest.NewFaulty(inner), failed: make(chan error, 8)}
	r.open(r.fs, sync)
	return r
}

// open opens the replica on a disk and leads.
func (r *rig) open(disk vfs.FS, sync meta.SyncPolicy) {
	r.t.Helper()
	var err error
	r.replica, err = OpenReplica(ReplicaOptions{
		FS: disk, Dir: "p", Self: "n1", Log: commitlog.Options{FillBytes: -1}, Now: time.Now,
		Failed: func(err error) { r.failed <- err },
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.lead(1, sync)
}

// breakLater fails writes, syncs or nothing from a random operation on.
func (r *rig) breakLater(rnd *rand.Rand) {
	kind := []vfs.OpKind{"", vfs.OpWrite, vfs.OpSyncData}[rnd.IntN(3)]
	if kind == "" {
		return
	}
	after := r.fs.Count() + rnd.Int64N(60)
	r.fs.Decide(func(i int64, op vfs.Op) vfstest.Fault {
		if op.Kind == kind && i >= after {
			return vfstest.Fault{Err: syscall.EIO}
		}
		return vfstest.Fault{}
	})
}

func (r *rig) lead(e seq.Epoch, sync meta.SyncPolicy) {
	r.t.Helper()
	l := View{Epoch: e, ISR: []meta.NodeID{"n1"}, MinISR: 1, Sync: sync}
	if err := r.replica.Lead(l, func(b commitlog.Batch) { r.batches = append(r.batches, b.Count()) }); err != nil {
		r.t.Fatal(err)
	}
}

// put appends one record. The channel receives its outcome.
func (r *rig) put() <-chan error {
	r.t.Helper()
	told := make(chan error, 2)
	err := r.replica.Term().Append(&entry{size: 10, told: func(_ commitlog.Placed, err error) { told <- err }})
	if err != nil {
		told <- err
	}
	return told
}

func (r *rig) close() {
	r.t.Helper()
	if err := r.replica.Close(); err != nil {
		r.t.Fatal(err)
	}
}

// breakOn fails operations of a kind with err.
func (r *rig) breakOn(kind vfs.OpKind, err error) {
	r.fs.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Kind == kind {
			return vfstest.Fault{Err: err}
		}
		return vfstest.Fault{}
	})
}

// TestEveryEntryCompletesOnceInOrder lets producers append while the disk fails
// or the term is stopped at a random moment.
func TestEveryEntryCompletesOnceInOrder(t *testing.T) {
	policies := []meta.SyncPolicy{meta.SyncAlways(), {Every: 5}, {Interval: time.Millisecond}}
	for seed := range uint64(60) {
		t.Run(fmt.Sprintf("seed%d", seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			r := newRig(t, vfs.NewMem(), policies[seed%3])
			r.breakLater(rnd)
			settleRandomly(t, r, rnd, 0)
			_ = r.replica.Close() // fails if the log did
		})
	}
}

// settleRandomly appends to a term whose log ends at next, and stops it.
func settleRandomly(t *testing.T, r *rig, rnd *rand.Rand, next seq.Offset) {
	term := r.replica.Term()
	var mu sync.Mutex // guards all of these
	var taken, settled []int
	var stopped bool
	var producers sync.WaitGroup
	stopAfter, done := rnd.IntN(200), make(chan struct{})
	for p := range 4 {
		producers.Go(func() {
			for i := range 100 {
				id := p*1000 + i
				e := &entry{size: 1 + i}
				e.taken = func() { mu.Lock(); taken = append(taken, id); mu.Unlock() }
				e.told = func(at commitlog.Placed, err error) {
					mu.Lock()
					defer mu.Unlock()
					settled = append(settled, id)
					if stopped {
						t.Errorf("entry %d was settled after Stop", id)
					}
					if err == nil && at.First != next {
						t.Errorf("entry %d at %d, want %d", id, at.First, next)
					}
					next++
				}
				if err := term.Append(e); err != nil {
					if fate.Of(err) != fate.Refused {
						t.Errorf("append: %v", err)
					}
					return
				}
				if p == 0 && i == stopAfter {
					close(done)
				}
			}
		})
	}
	go func() {
		producers.Wait()
		mu.Lock()
		defer mu.Unlock()
		select {
		case <-done:
		default:
			close(done)
		}
	}()
	<-done
	_ = term.Stop() // fails if the log did
	mu.Lock()
	stopped = true
	mu.Unlock()
	producers.Wait()
	if fmt.Sprint(taken) != fmt.Sprint(settled) {
		t.Errorf("taken   %v\nsettled %v", taken, settled)
	}
}

func TestArrivalsDuringSyncFormOneBatch(t *testing.T) {
	r := newRig(t, vfs.NewMem(), meta.SyncAlways())
	hang, hanging := make(chan struct{}), make(chan struct{})
	var once sync.Once
	r.fs.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Kind != vfs.OpSyncData {
			return vfstest.Fault{}
		}
		once.Do(func() { close(hanging) })
		return vfstest.Fault{Hang: hang}
	})
	all := []<-chan error{r.put()}
	<-hanging
	for range 100 {
		all = append(all, r.put())
	}
	select {
	case err := <-all[0]:
		t.Errorf("settled before its sync: %v", err)
	default:
	}
	close(hang)
	for _, c := range all {
		if err := <-c; err != nil {
			t.Error(err)
		}
	}
	r.close()
	if got := fmt.Sprint(r.batches); got != "[1 100]" {
		t.Errorf("batches of %s, want [1 100]", got)
	}
}

func TestFullDiskRefusesAndRecovers(t *testing.T) {
	r := newRig(t, vfs.NewMem(), meta.SyncAlways())
	for _, kind := range []vfs.OpKind{vfs.OpCreate, vfs.OpPreallocate, vfs.OpWrite} {
		r.breakOn(kind, syscall.ENOSPC)
		err := <-r.put()
		if kind != vfs.OpCreate && err == nil {
			continue // nothing of the kind was needed
		}
		if !errors.Is(err, failure.NoSpace) || fate.Of(err) != fate.Refused {
			t.Errorf("%v: %v, fate %v", kind, err, fate.Of(err))
		}
		r.fs.Decide(nil)
		if err := <-r.put(); err != nil {
			t.Errorf("%v: with room again: %v", kind, err)
		}
	}
	r.close()
	if len(r.failed) != 0 {
		t.Errorf("called failed: %v", <-r.failed)
	}
}

func TestIOErrorEndsTheTerm(t *testing.T) {
	for _, kind := range []vfs.OpKind{vfs.OpWrite, vfs.OpSyncData} {
		t.Run(string(kind), func(t *testing.T) {
			r := newRig(t, vfs.NewMem(), meta.SyncAlways())
			if err := <-r.put(); err != nil {
				t.Fatal(err)
			}
			r.breakOn(kind, syscall.EIO)
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
			if got := r.replica.Log().CommittedEnd(); got != 1 {
				t.Errorf("committed to %d, want 1", got)
			}
			if err := r.replica.StopLeading(); !errors.Is(err, commitlog.ErrFailed) {
				t.Errorf("stop says %v", err)
			}
			_ = r.replica.Close() // the log has failed
			if len(r.failed) != 0 {
				t.Error("failed was called twice")
			}
		})
	}
}

func TestFailedIntervalSyncEndsAcknowledgements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, vfs.NewMem(), meta.SyncPolicy{Interval: time.Second})
		if err := <-r.put(); err != nil {
			t.Fatal(err)
		}
		r.breakOn(vfs.OpSyncData, syscall.EIO)
		if err := <-r.failed; !errors.Is(err, syscall.EIO) {
			t.Errorf("failed with %v", err)
		}
		if err := <-r.put(); fate.Of(err) != fate.Refused {
			t.Errorf("after it: %v", err)
		}
		_ = r.replica.Close() // the log has failed
	})
}

func TestLogFailureElsewhereEndsTerm(t *testing.T) {
	r := newRig(t, vfs.NewMem(), meta.SyncPolicy{Every: 1000})
	if err := <-r.put(); err != nil {
		t.Fatal(err)
	}
	r.breakOn(vfs.OpSyncData, syscall.EIO)
	_ = r.replica.Log().Checkpoint(0) // whether it fails the log is the log's business
	_, err := r.replica.Term().w.Sync()
	if err == nil {
		t.Fatal("the sync did not fail")
	}
	if err := <-r.put(); fate.Of(err) != fate.Refused {
		t.Errorf("settled with %v", err)
	}
	<-r.failed
	_ = r.replica.Close() // the log has failed
}

func TestSyncPolicies(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy meta.SyncPolicy
		puts   int
		wait   time.Duration
		want   seq.Offset // the durable end
	}{
		{"always", meta.SyncAlways(), 1, 0, 1},
		{"one short of a count", meta.SyncPolicy{Every: 3}, 2, time.Hour, 0},
		{"a count", meta.SyncPolicy{Every: 3}, 3, 0, 3},
		{"before the interval", meta.SyncPolicy{Interval: time.Second}, 5, 999 * time.Millisecond, 0},
		{"after the interval", meta.SyncPolicy{Interval: time.Second}, 5, time.Second, 5},
		{"count and interval", meta.SyncPolicy{Every: 3, Interval: time.Second}, 4, time.Second, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, vfs.NewMem(), tc.policy)
				for range tc.puts {
					if err := <-r.put(); err != nil {
						t.Fatal(err)
					}
				}
				<-time.After(tc.wait)
				synctest.Wait()
				if got := r.replica.Log().DurableEnd(); got != tc.want {
					t.Errorf("durable to %d, want %d", got, tc.want)
				}
				if err := r.replica.StopLeading(); err != nil {
					t.Error(err)
				}
				if got := r.replica.Log().DurableEnd(); got != seq.Offset(tc.puts) {
					t.Errorf("stopped, durable to %d, want %d", got, tc.puts)
				}
				r.close()
			})
		})
	}
}

func TestTighterSyncPolicyCoversExistingEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, vfs.NewMem(), meta.SyncPolicy{Interval: time.Minute})
		<-r.put()
		r.replica.Term().syncer.SetPolicy(meta.SyncPolicy{Interval: time.Second})
		<-time.After(time.Second)
		synctest.Wait()
		if got := r.replica.Log().DurableEnd(); got != 1 {
			t.Errorf("a shorter interval: durable to %d, want 1", got)
		}
		<-r.put()
		r.replica.Term().syncer.SetPolicy(meta.SyncAlways())
		synctest.Wait()
		if got := r.replica.Log().DurableEnd(); got != 2 {
			t.Errorf("always: durable to %d, want 2", got)
		}
		r.close()
	})
}

func TestLaterTermCommitsInheritedEntries(t *testing.T) {
	mem := vfs.NewCrashable()
	r := newRig(t, mem, meta.SyncPolicy{Interval: time.Hour})
	if err := <-r.put(); err != nil {
		t.Fatal(err)
	}
	killed := newRig(t, mem.CrashClone(vfs.Crash{KeepPercent: 100}), meta.SyncAlways())
	if l := killed.replica.Log(); l.CommittedEnd() != 1 || l.DurableEnd() != 1 {
		t.Errorf("committed %d, durable %d, want 1", l.CommittedEnd(), l.DurableEnd())
	}
	before := killed.replica.Term()
	killed.lead(7, meta.SyncAlways())
	if err := before.Append(&entry{size: 1}); !errors.Is(err, failure.NotLeading) {
		t.Errorf("the term before took an entry: %v", err)
	}
	stale := View{Epoch: 6, ISR: []meta.NodeID{"n1"}, Sync: meta.SyncAlways()}
	if err := killed.replica.Lead(stale, nil); !errors.Is(err, commitlog.ErrFenced) {
		t.Errorf("led at a stale epoch: %v", err)
	}
	if err := <-killed.put(); err != nil {
		t.Errorf("after the stale epoch was refused: %v", err)
	}
	killed.close()
	r.close()
}

func TestTooFewInSyncRefuses(t *testing.T) {
	r := newRig(t, vfs.NewMem(), meta.SyncAlways())
	l := View{Epoch: 2, ISR: []meta.NodeID{"n1"}, MinISR: 2, Sync: meta.SyncAlways()}
	if err := r.replica.Lead(l, nil); err != nil {
		t.Fatal(err)
	}
	if err := <-r.put(); !errors.Is(err, failure.TooFewISR) {
		t.Errorf("took an entry: %v", err)
	}
	r.close()
}

// TestAppendWaitsForRoom: a hanging disk makes producers wait, and Stop
// releases them.
func TestAppendWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, vfs.NewMem(), meta.SyncAlways())
		hang := make(chan struct{})
		r.fs.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
			if op.Kind == vfs.OpSyncData {
				return vfstest.Fault{Hang: hang}
			}
			return vfstest.Fault{}
		})
		term := r.replica.Term()
		term.o.Sizes.Forming = 1000
		<-r.put0()
		taken, refused := 0, 0
		var mu sync.Mutex
		var producers sync.WaitGroup
		for range 100 {
			producers.Go(func() {
				err := term.Append(&entry{size: 100, told: func(commitlog.Placed, error) {}})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					taken++
				} else if errors.Is(err, failure.NotLeading) {
					refused++
				}
			})
		}
		synctest.Wait()
		mu.Lock()
		if taken > 12 {
			t.Errorf("took %d entries of 100 bytes, limit 1000", taken)
		}
		mu.Unlock()
		stopped := make(chan error, 1)
		go func() { stopped <- term.Stop() }()
		synctest.Wait()
		close(hang)
		producers.Wait()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		if taken+refused != 100 || refused < 80 {
			t.Errorf("%d taken, %d refused", taken, refused)
		}
		r.close()
	})
}

// put0 appends and waits only until the disk is at it.
func (r *rig) put0() <-chan struct{} {
	r.put()
	synctest.Wait()
	done := make(chan struct{})
	close(done)
	return done
}
