package replication

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// syncedOnDemand returns the follower of a log whose syncs of segments wait for a value
// on the channel, or for its end.
func syncedOnDemand(t *testing.T) (*Follower, chan struct{}) {
	t.Helper()
	gate := make(chan struct{})
	mem := vfs.NewMem()
	if err := mem.MkdirAll("f"); err != nil {
		t.Fatal(err)
	}
	slow := vfstest.NewFaulty(mem)
	slow.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Kind == vfs.OpSyncData && strings.HasSuffix(op.Name, ".log") {
			<-gate
		}
		return vfstest.Fault{}
	})
	l, _, err := commitlog.Open(slow, "f", commitlog.Options{FillBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	f := NewFollower(l, limit.Default().Put, func(error) {}, nil)
	t.Cleanup(func() { f.Close(); l.Close() })
	return f, gate
}

// putsOf returns puts of one batch each, as a leader of epoch 1 sends them.
func putsOf(t *testing.T, n int) [][]byte {
	t.Helper()
	a := newReplica(t, "a")
	w, err := a.log.Writer(1)
	if err != nil {
		t.Fatal(err)
	}
	all, prev := make([][]byte, n), point{}
	for i := range all {
		b := new(commitlog.Builder)
		copy(b.Next(4), "text")
		batch, err := w.Append(b, 1)
		if err != nil {
			t.Fatal(err)
		}
		head := put{header: header{Partition{1, 0}, 1}, prev: prev, sync: true}.appendHead(nil)
		all[i], prev = append(head, batch.Raw()...), pointOf(batch)
	}
	return all
}

// TestNewEpochOvertakesQueuedPuts: while a follower's disk is busy with a put, many
// more come, and then metadata names a new epoch. The follower adopts it after the
// put in progress, and acknowledges no queued put in the old epoch.
func TestNewEpochOvertakesQueuedPuts(t *testing.T) {
	change := map[string]func(*Follower) error{
		"adopt": func(f *Follower) error { return f.Adopt(Following{Epoch: 2}) },
		"rest":  func(f *Follower) error { return f.Rest(2) },
		"yield": func(f *Follower) error { f.Yield(2); return nil },
		"close": func(f *Follower) error { f.Close(); return nil },
	}
	for name, change := range change {
		synctest.Test(t, func(t *testing.T) {
			f, gate := syncedOnDemand(t)
			if err := f.Adopt(Following{Epoch: 1}); err != nil {
				t.Fatal(err)
			}
			puts := putsOf(t, 3*maxGroup)
			outcomes := make([]outcome, 0, len(puts))
			answered := func(p []byte) { a, _ := decodeAnswer(p); outcomes = append(outcomes, a.outcome) }
			f.Handle(nil, KindPut, puts[0], answered)
			synctest.Wait() // it is being synced
			for _, p := range puts[1:] {
				f.Handle(nil, KindPut, p, answered)
			}
			changed := false
			go func() {
				if err := change(f); err != nil {
					t.Error(err)
				}
				changed = true
			}()
			synctest.Wait()
			gate <- struct{}{}
			synctest.Wait()
			if !changed {
				t.Errorf("%s: not done behind the put that was worked on", name)
			}
			close(gate)
			synctest.Wait()
			acked := len(slices.DeleteFunc(slices.Clone(outcomes), func(o outcome) bool { return o != outcomeOK }))
			if len(outcomes) != len(puts) || acked != 1 || outcomes[0] != outcomeOK {
				t.Errorf("%s: %d of %d puts were answered, %d of them acknowledged; want all, and the first one alone acknowledged", name, len(outcomes), len(puts), acked)
			}
		})
	}
}

// TestOtherPositionsStoreTheSharesAgain: a replica that is opened again in the same epoch has other
// positions. What the ones before have stored is not in them.
func TestOtherPositionsStoreTheSharesAgain(t *testing.T) {
	r := newReplica(t, "b")
	h := header{Partition{1, 0}, 1}
	share := positions{header: h, number: 3, total: 1, piece: []byte("x")}
	first, second := &ledger{}, &ledger{}
	for _, step := range []struct {
		p     *ledger
		epoch seq.Epoch
		took  int
	}{{first, 1, 1}, {first, 1, 1}, {second, 1, 1}, {second, 2, 2}} {
		if err := r.follower.Adopt(Following{Epoch: step.epoch, Positions: step.p}); err != nil {
			t.Fatal(err)
		}
		if got := r.follower.replace(share).outcome; got != outcomeOK {
			t.Fatalf("outcome %d", got)
		}
		if len(step.p.took) != step.took {
			t.Errorf("in epoch %d the positions hold %q, want %d shares", step.epoch, step.p.took, step.took)
		}
	}
}
