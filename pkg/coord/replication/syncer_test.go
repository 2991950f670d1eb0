package replication

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Data written while each append was synced may be only in memory. If the policy changes
// before the sync is requested, the sync is still necessary.
func TestSyncerKeepsPreviousPolicysPromise(t *testing.T) {
	l, _, err := commitlog.Open(vfs.NewMem(), "p", commitlog.Options{FillBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	w, err := l.Writer(1)
	if err != nil {
		t.Fatal(err)
	}
	s := NewSyncer(w, meta.SyncPolicy{Every: 1}, func(err error) { t.Error(err) })
	if !s.Appended(1) {
		t.Error("an append is not to be synced though each is")
	}
	s.SetPolicy(meta.SyncPolicy{Interval: time.Hour})
	s.SetPolicy(meta.SyncPolicy{Interval: 2 * time.Hour}) // a sync that is due stays due
	for i, want := range []bool{true, false} {
		if due := s.Appended(1); due != want {
			t.Errorf("append %d behind the change of the policy: due %v", i+1, due)
		}
	}
	s.Stop()
	s.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
