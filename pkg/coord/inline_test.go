package coord

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// inlineEntry is an entry that its caller may append.
type inlineEntry struct {
	entry
	inline func(appendHere func())
}

func (e *inlineEntry) Inline() func(appendHere func()) { return e.inline }

// putInline appends one record by an Inliner that agrees. It returns the record's outcome,
// and what appends it, if the term asked.
func (r *rig) putInline() (told chan error, appendHere func()) {
	r.t.Helper()
	told = make(chan error, 2)
	e := &inlineEntry{
		entry:  entry{size: 10, told: func(_ commitlog.Placed, err error) { told <- err }},
		inline: func(f func()) { appendHere = f },
	}
	if err := r.replica.Term().Append(e); err != nil {
		r.t.Fatal(err)
	}
	return told, appendHere
}

func TestCallerAppendsForAllWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, vfs.NewMem(), meta.SyncAlways())
		defer r.close()
		first, appendHere := r.putInline()
		second := r.put()
		third, none := r.putInline()
		synctest.Wait()
		if appendHere == nil || none != nil {
			t.Fatalf("asked to append: the first %v, a later one %v", appendHere != nil, none != nil)
		}
		if len(first)+len(second)+len(third) > 0 || r.replica.Log().End() != 0 {
			t.Fatal("something was appended before the caller did")
		}
		appendHere()
		for i, told := range []<-chan error{first, second, third} {
			if len(told) != 1 || <-told != nil {
				t.Errorf("entry %d is not settled", i)
			}
		}
		if !slices.Equal(r.batches, []int{3}) {
			t.Errorf("batches of %v", r.batches)
		}
		if _, again := r.putInline(); again == nil {
			t.Error("the next caller was not asked")
		} else {
			again()
		}
	})
}

func TestCallerAppendsOnlyOneGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, vfs.NewMem(), meta.SyncAlways())
		defer r.close()
		hangs := []chan struct{}{make(chan struct{}), make(chan struct{})}
		syncs := 0
		r.fs.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
			if op.Kind != vfs.OpSyncData || syncs == len(hangs) {
				return vfstest.Fault{}
			}
			syncs++
			return vfstest.Fault{Hang: hangs[syncs-1]}
		})
		first, appendHere := r.putInline()
		returned := make(chan struct{})
		go func() { appendHere(); close(returned) }()
		synctest.Wait()
		second, none := r.putInline()
		if none != nil {
			t.Error("another caller was asked meanwhile")
		}
		close(hangs[0])
		synctest.Wait()
		select {
		case <-returned:
		default:
			t.Error("the caller waits for a later group")
		}
		if len(first) != 1 || len(second) != 0 {
			t.Errorf("settled: %d of the first, %d of the second group", len(first), len(second))
		}
		close(hangs[1])
		synctest.Wait()
		if len(second) != 1 {
			t.Error("the second group was not appended")
		}
	})
}

func TestStopWaitsForACallerThatAppends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, vfs.NewMem(), meta.SyncAlways())
		told, appendHere := r.putInline()
		closed := make(chan error, 1)
		go func() { closed <- r.replica.Close() }()
		time.Sleep(time.Minute)
		if len(closed) != 0 || len(told) != 0 {
			t.Fatal("the term has ended before what it took was appended")
		}
		appendHere()
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if err := <-told; err != nil {
			t.Errorf("settled with %v", err)
		}
	})
}

func TestDecliningCallerIsNotAwaited(t *testing.T) {
	r := newRig(t, vfs.NewMem(), meta.SyncAlways())
	defer r.close()
	told := make(chan error, 1)
	e := &inlineEntry{entry: entry{size: 10, told: func(_ commitlog.Placed, err error) { told <- err }}}
	if err := r.replica.Term().Append(e); err != nil {
		t.Fatal(err)
	}
	if err := <-told; err != nil {
		t.Error(err)
	}
}
