package coord

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// outcome is how an entry was completed.
type outcome struct {
	at  commitlog.Placed
	err error
}

// placed is put that receives the place, too.
func (r *rig) placed() <-chan outcome {
	r.t.Helper()
	told := make(chan outcome, 2)
	err := r.replica.Term().Append(&entry{size: 10, told: func(at commitlog.Placed, err error) { told <- outcome{at, err} }})
	if err != nil {
		told <- outcome{err: err}
	}
	return told
}

// pass lets the term tick for a time.
func (r *rig) pass(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(100 * time.Millisecond)
		r.replica.Term().Tick(time.Now(), time.Now())
	}
	synctest.Wait()
}

// lateWrite has a write hang, and then fail or not, with an entry behind it.
func lateWrite(t *testing.T, then error, test func(r *rig, written, behind <-chan outcome, release func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, vfs.NewMem(), meta.SyncAlways())
		if o := <-r.placed(); o.err != nil {
			t.Fatal(o.err)
		}
		hang := make(chan struct{})
		r.fs.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
			if op.Kind == vfs.OpWrite && strings.HasSuffix(op.Name, ".log") {
				return vfstest.Fault{Hang: hang, Err: then}
			}
			return vfstest.Fault{}
		})
		written := r.placed()
		synctest.Wait()
		behind := r.placed()
		r.pass(DefaultPublishTimeout + 200*time.Millisecond)
		if len(written) != 1 || len(behind) != 1 {
			t.Errorf("told of the write: %d, of what waits: %d", len(written), len(behind))
			close(hang)
			return
		}
		test(r, written, behind, func() { close(hang) })
	})
}

// A publish is answered in time, also if the disk hangs in its write: it may be stored, where the log ended. What
// waits behind it is refused.
func TestWriteThatHangsIsAnsweredInTime(t *testing.T) {
	lateWrite(t, nil, func(r *rig, written, behind <-chan outcome, release func()) {
		if o := <-written; !errors.Is(o.err, failure.Unconfirmed) || fate.Of(o.err) != fate.Uncertain || !o.at.Written || o.at.First != 1 {
			t.Errorf("what is being written: %+v", o)
		}
		if o := <-behind; !errors.Is(o.err, failure.TooFewISR) || o.at.Written {
			t.Errorf("what waits: %+v", o)
		}
		if o := <-r.placed(); !errors.Is(o.err, failure.TooFewISR) {
			t.Errorf("meanwhile: %+v", o)
		}
		release()
		synctest.Wait()
		if o := <-r.placed(); o.err != nil || o.at.First != 2 {
			t.Errorf("then: %+v", o)
		}
		if l := r.replica.Log(); l.CommittedEnd() != 3 || len(written)+len(behind) > 0 {
			t.Errorf("committed to %d, told again: %d, %d", l.CommittedEnd(), len(written), len(behind))
		}
		r.close()
	})
}

// A table of dedup ids that has noted an offset for a message must not find another message there: a write that had
// no effect, for lack of space, is repeated.
func TestWriteThatWasToldAndHadNoEffectIsRepeated(t *testing.T) {
	for _, stops := range []bool{false, true} {
		lateWrite(t, syscall.ENOSPC, func(r *rig, written, behind <-chan outcome, release func()) {
			release()
			r.pass(time.Second)
			if o := <-r.placed(); !errors.Is(o.err, failure.TooFewISR) {
				t.Errorf("while there is no space: %+v", o)
			}
			want := seq.Offset(1)
			if !stops {
				r.fs.Decide(nil)
				r.pass(time.Second)
				if o := <-r.placed(); o.err != nil || o.at.First != 2 {
					t.Errorf("with space again: %+v", o)
				}
				want = 3
			} else if err := r.replica.StopLeading(); err != nil {
				t.Error(err)
			}
			if l := r.replica.Log(); l.End() != want || len(r.failed) > 0 {
				t.Errorf("the log ends at %d, want %d; failed %d times", l.End(), want, len(r.failed))
			}
			r.fs.Decide(nil)
			r.close()
			if len(written) != 1 || len(behind) != 1 {
				t.Errorf("told %d and %d times", len(written), len(behind))
			}
		})
	}
}

// One goroutine writes for all logs that take part in rounds. If it hangs for another one, a publish that waits for
// the next round is refused in time.
func TestPublishIsRefusedInTimeWhileARoundHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, journal := newJournaledRig(t, vfs.NewMem())
		other := stuck{make(chan struct{})}
		if !r.replica.Term().w.Join(other) {
			t.Fatal("the log takes no part in rounds")
		}
		synctest.Wait()
		told := r.placed()
		r.pass(DefaultPublishTimeout - 200*time.Millisecond)
		if len(told) > 0 {
			t.Errorf("told early: %+v", <-told)
		}
		r.pass(400 * time.Millisecond)
		if len(told) != 1 {
			t.Error("not told")
		} else if o := <-told; !errors.Is(o.err, failure.TooFewISR) || o.at.Written {
			t.Errorf("told %+v", o)
		}
		close(other.until)
		synctest.Wait()
		if o := <-r.placed(); o.err != nil || o.at.First != 3 {
			t.Errorf("then: %+v", o)
		}
		r.close()
		if err := journal.Close(); err != nil {
			t.Error(err)
		}
	})
}

// stuck is a member of a round whose write hangs.
type stuck struct{ until chan struct{} }

func (s stuck) Write(*vfs.Gathering) vfs.Sync {
	<-s.until
	return nil
}
func (stuck) Synced(*vfs.Gathering, error) {}
