package scrubber

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// replicas is replicas by name.
type replicas map[string]*copied

func (s replicas) stored(f func(string, Replica)) {
	for name, r := range s {
		f(name, r)
	}
}

// copied is a replica that counts the calls of MarkDamaged.
type copied struct {
	log     *commitlog.Log
	spoiled int
}

func (c *copied) Log() *commitlog.Log { return c.log }
func (c *copied) MarkDamaged(error)   { c.spoiled++ }

func open(t *testing.T, fs vfs.FS, dir string) *copied {
	t.Helper()
	l, _, err := commitlog.Open(fs, dir, commitlog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return &copied{log: l}
}

// TestEveryReplicaIsCheckedAndRecordsPersist: within an interval each replica is checked once, a
// removed one is forgotten, and a restarted scrubber knows what was checked.
func TestEveryReplicaIsCheckedAndRecordsPersist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		held := replicas{"a": open(t, fs, "a"), "b": open(t, fs, "b")}
		o := Options{
			FS: fs, Notes: "scrubbed", Interval: time.Hour, WallClock: time.Time.UnixNano,
			Logger: slog.New(slog.DiscardHandler), Stored: held.stored,
		}
		run := func(d time.Duration) *Scrubber {
			s := New(o)
			done := make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			go func() { defer close(done); s.Run(ctx) }()
			time.Sleep(d)
			cancel()
			<-done
			return s
		}
		s := run(2 * time.Hour)
		checked := func(s *Scrubber) (names []string) {
			for name, r := range held {
				if at, _ := s.Checked(name, r.log); at > 0 {
					names = append(names, name)
				}
			}
			slices.Sort(names)
			return names
		}
		if got := checked(s); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("checked: %v", got)
		}
		if oldest := s.Stats().Oldest; oldest > 90*time.Minute {
			t.Errorf("the replica that was checked least recently was checked %v ago", oldest)
		}
		gone := held["b"].log
		delete(held, "b")
		if s = run(time.Second); !slices.Equal(checked(s), []string{"a"}) {
			t.Errorf("checked after a restart: %v", checked(s))
		}
		if at, _ := s.Checked("b", gone); at != 0 {
			t.Error("a replica that is held no longer is remembered")
		}
		if held["a"].spoiled != 0 {
			t.Error("an intact replica is said to be damaged")
		}
	})
}
