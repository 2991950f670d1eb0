package vfs

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// requested returns a Syncs with requests to the kernel, or skips the test if
// the kernel does not accept them.
func requested(t *testing.T, places int) *Syncs {
	t.Helper()
	r, err := newSyncRequest()
	if err != nil {
		t.Skipf("the kernel takes no requests: %v", err)
	}
	s := NewSyncs(places)
	s.put(r, false)
	s.made = 1
	return s
}

// dataBy is a sync of data that blocks in a function.
func dataBy(block func() error) syncKind {
	return syncKind{aioDataSync, func(*os.File) error { return block() }}
}

func written(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "x"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if _, err := f.WriteString("something to sync"); err != nil {
		t.Fatal(err)
	}
	return f
}

// Half of the places may be in syncs. Further syncs are passed to the kernel, and
// complete while the others still block.
func TestSyncsLeaveProcessorSlots(t *testing.T) {
	for _, x := range []struct{ places, blocking int }{{1, 0}, {2, 1}, {3, 1}, {8, 4}} {
		s := requested(t, x.places)
		release := make(chan struct{})
		var begun, ended sync.WaitGroup
		for range x.blocking {
			begun.Add(1)
			ended.Go(func() {
				if err := s.sync(nil, dataBy(func() error { begun.Done(); <-release; return nil })); err != nil {
					t.Error(err)
				}
			})
		}
		begun.Wait()
		f := written(t)
		for range 3 { // the request is used again
			if err := s.sync(f, dataBy(func() error { return errors.New("one place too many is taken") })); err != nil {
				t.Errorf("%d places: %v", x.places, err)
			}
		}
		close(release)
		ended.Wait()
		if blocked := false; x.blocking > 0 {
			if err := s.sync(f, dataBy(func() error { blocked = true; return nil })); err != nil || !blocked {
				t.Errorf("%d places: a sync alone does not block, %v", x.places, err)
			}
		}
	}
}

// If the kernel accepts no requests, or no more of them, syncs block.
func TestSyncsBlockWithoutKernelRequests(t *testing.T) {
	f := written(t)
	pipe, _, err := os.Pipe() // cannot be synced
	if err != nil {
		t.Fatal(err)
	}
	full := requested(t, 1)
	full.idle, full.made = nil, maxRequests
	for name, x := range map[string]struct {
		s *Syncs
		f *os.File
	}{
		"none":              {nil, f},
		"refused at first":  {&Syncs{refused: true}, f},
		"refused at a file": {requested(t, 1), pipe},
		"too many":          {full, f},
	} {
		sentinel := errors.New("blocked")
		for range 2 {
			if err := x.s.sync(x.f, dataBy(func() error { return sentinel })); !errors.Is(err, sentinel) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// The caller gets the error of a failed sync.
func TestSyncsReportFailures(t *testing.T) {
	s := requested(t, 1)
	f := written(t)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.sync(f, dataBy(func() error { return nil })); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed file: %v", err)
	}
	if err := s.sync(written(t), dataBy(func() error { return errors.New("a closed file counts as refused") })); err != nil {
		t.Error(err)
	}
}

func TestManySyncsAtOnce(t *testing.T) {
	s := requested(t, 1)
	var blocked atomic.Int32
	var all sync.WaitGroup
	for range 4 * maxRequests {
		f := written(t)
		all.Go(func() {
			for range 5 {
				if err := s.sync(f, dataBy(func() error { blocked.Add(1); return f.Sync() })); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if s.made > maxRequests || len(s.idle) != s.made || s.blocking.Load() != 0 {
		t.Errorf("%d requests were made, %d are idle, %d syncs block", s.made, len(s.idle), s.blocking.Load())
	}
	t.Logf("%d requests, %d syncs blocked", s.made, blocked.Load())
}
