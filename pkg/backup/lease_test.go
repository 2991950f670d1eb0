package backup

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestBackupsAreNotDeletedWhileOneIsRead as in a restore, which may take hours.
func TestBackupsAreNotDeletedWhileOneIsRead(t *testing.T) {
	r, path := store(t)
	written(t, r, "b1", "x", "one")
	written(t, r, "b2", "x", "two")
	unprotected := func(err error) { t.Errorf("unprotected: %v", err) }
	broken := errors.New("broken")
	err := r.Reading(t.Context(), unprotected, func(context.Context) error {
		for _, dry := range []bool{true, false} {
			if _, err := In(Dir(path)).Prune(t.Context(), 1, dry); !errors.Is(err, ErrBusy) {
				t.Errorf("during a restore: %v", err)
			}
		}
		check(t, begun(t, r, "b3").Abandon(t.Context())) // backups are not in the way
		return broken
	})
	if !errors.Is(err, broken) {
		t.Error(err)
	}
	l, err := r.take(t.Context(), deletingName(created))
	check(t, err)
	if err := r.Reading(t.Context(), unprotected, func(context.Context) error { t.Error("read"); return nil }); !errors.Is(err, ErrBusy) {
		t.Errorf("during a deletion: %v", err)
	}
	check(t, l.release(t.Context()))
	if done, err := r.Prune(t.Context(), 1, false); err != nil || len(done.Backups) != 1 || strings.Contains(files(t, path), "reading") {
		t.Errorf("%+v, %v, left: %s", done, err, files(t, path))
	}
}

// TestDeletedBackupStaysDeleted also if its process goes on: its chunks may be gone.
func TestDeletedBackupStaysDeleted(t *testing.T) {
	r, path := store(t)
	written(t, r, "b1", "x", "one")
	now := time.Now()
	r.now = func() time.Time { return now }
	work := begun(t, r, "b2")
	w := work.Messages(nil)
	check(t, w.Add(t.Context(), &Message{Body: []byte("two")}))
	chunks, err := w.Close(t.Context())
	check(t, err)
	_, err = In(Dir(path)).Delete(t.Context(), []string{"b2"}, false)
	check(t, err)
	now = now.Add(leaseRenewed + time.Minute)
	if err := work.KeepAlive(t.Context()); !errors.Is(err, errLapsed) {
		t.Errorf("its marker is renewed: %v", err)
	}
	m := &Manifest{Format: Format, ID: "b2", Topics: []Topic{{Name: "t", Partitions: []Partition{{End: 1, Chunks: chunks}}}}}
	if err := work.Complete(t.Context(), m); !errors.Is(err, errLapsed) || files(t, path) != "b1.json 1" {
		t.Errorf("completed without its chunks: %v, left: %s", err, files(t, path))
	}
}

// TestReadingEndsWhenItsMarkerIsTooOld: others may have deleted what it reads.
func TestReadingEndsWhenItsMarkerIsTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := In(Dir(t.TempDir()))
		var ahead atomic.Int64
		r.now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		err := r.Reading(t.Context(), func(err error) { t.Error(err) }, func(ctx context.Context) error {
			time.Sleep(3*time.Hour + keepEvery/2) // between two renewals
			if ctx.Err() != nil {
				t.Error("it ended although its marker was renewed")
			}
			ahead.Store(int64(leaseEnds)) // the machine was suspended
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if !errors.Is(err, errLapsed) {
			t.Error(err)
		}
	})
}

// TestReadOnlyStoreIsReadWithoutProtection.
func TestReadOnlyStoreIsReadWithoutProtection(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(dir, nil, 0o600)) // no marker can be stored below a file
	told, read := false, false
	err := In(Dir(dir)).Reading(t.Context(), func(error) { told = true }, func(context.Context) error { read = true; return nil })
	if err != nil || !told || !read {
		t.Errorf("told %v, read %v, %v", told, read, err)
	}
}

// TestMarkerOfAKilledProcessBlocksNobody on the same machine.
func TestMarkerOfAKilledProcessBlocksNobody(t *testing.T) {
	r, path := store(t)
	written(t, r, "b1", "x", "one")
	check(t, begun(t, r, "b0").Abandon(t.Context()))
	begun(t, r, "b2")
	marker := filepath.Join(path, partialName("b2"))
	if _, err := r.Prune(t.Context(), 1, false); !errors.Is(err, ErrBusy) {
		t.Fatalf("this process runs: %v", err)
	}
	by := thisOwner(procRoot)
	if by.Started == "" {
		t.Skip("processes are not described in /proc")
	}
	cmd := exec.CommandContext(t.Context(), "true")
	check(t, cmd.Run())
	for about, change := range map[string]func(*owner){
		"another kernel":        func(o *owner) { o.Boot, o.PID = "x", cmd.Process.Pid },
		"another container":     func(o *owner) { o.Space, o.PID = "x", cmd.Process.Pid },
		"nothing is known":      func(o *owner) { *o = owner{} },
		"this process, as said": func(*owner) {},
	} {
		o := by
		change(&o)
		check(t, os.WriteFile(marker, o.encode(), 0o600))
		if _, err := r.Prune(t.Context(), 1, true); !errors.Is(err, ErrBusy) {
			t.Errorf("%s: %v", about, err)
		}
	}
	for about, change := range map[string]func(*owner){
		"it has ended":             func(o *owner) { o.PID = cmd.Process.Pid },
		"its id was given to this": func(o *owner) { o.Started = "1" },
	} {
		o := by
		change(&o)
		check(t, os.WriteFile(marker, o.encode(), 0o600))
		if d, err := r.Prune(t.Context(), 1, true); err != nil || len(d.Interrupted) != 1 {
			t.Errorf("%s: %+v, %v", about, d, err)
		}
	}
	hidden := t.TempDir() // /proc with hidepid=2 has no entry of another user's process
	if by.ended(hidden, by.encode()) {
		t.Error("a process has ended whose entry is hidden")
	}
	by.PID = cmd.Process.Pid
	if !by.ended(hidden, by.encode()) {
		t.Error("a process has not ended that is unknown to the kernel")
	}
	check(t, os.WriteFile(marker, nil, 0o600)) // of another machine
	if d, err := r.Delete(t.Context(), []string{"b2"}, false); err != nil || files(t, path) != "b1.json 1" {
		t.Errorf("deleted by its id: %+v, %v, left: %s", d, err, files(t, path))
	}
}
