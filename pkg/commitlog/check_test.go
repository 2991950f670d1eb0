package commitlog

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/commitlog/segmenthead"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// checkAll checks a whole log and returns the damage, the bytes, and any other
// error.
func checkAll(l *Log, from seq.Offset, step int) (found []*CorruptionError, bytes int, err error) {
	c := NewChecker(l, from)
	defer c.Close()
	for range 10_000 {
		n, done, err := c.Step(step, nil)
		bytes += n
		var d *CorruptionError
		switch {
		case errors.As(err, &d):
			found = append(found, d)
		case err != nil:
			return found, bytes, err
		case done:
			return found, bytes, nil
		}
	}
	return found, bytes, errors.New("the check does not end")
}

// checked is a log of several segments, the last of which is being written and is
// also in memory.
func checked(t *testing.T) (*vfs.Mem, *Log) {
	t.Helper()
	fsys := vfs.NewMem()
	if err := fsys.MkdirAll(testDir); err != nil {
		t.Fatal(err)
	}
	o := smallOptions()
	o.TailBytes = 1 << 20
	l, _ := mustOpen(t, fsys, o)
	w := mustWriter(t, l, 1)
	for range 40 {
		mustAppend(t, w, 3)
	}
	mustSync(t, w)
	l.Commit(l.End())
	if err := l.Checkpoint(0); err != nil {
		t.Fatal(err)
	}
	if len(l.view()) < 4 {
		t.Fatalf("%d segments", len(l.view()))
	}
	t.Cleanup(func() { l.Close() })
	return fsys, l
}

// Damaged or missing data on the disk is found in any segment, though all of it is
// also in memory and read from there.
func TestCheckFindsMissingData(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, fsys *vfs.Mem, s *segment){
		"bit in the head":        func(t *testing.T, fsys *vfs.Mem, s *segment) { flip(t, fsys, s.path, 20) },
		"bit in a batch's head":  func(t *testing.T, fsys *vfs.Mem, s *segment) { flip(t, fsys, s.path, segmenthead.Bytes+9) },
		"bit in the last record": func(t *testing.T, fsys *vfs.Mem, s *segment) { flip(t, fsys, s.path, s.size.Load()-10) },
		"file is gone": func(t *testing.T, fsys *vfs.Mem, s *segment) {
			if err := fsys.Remove(s.path); err != nil {
				t.Fatal(err)
			}
		},
		"file is cut": func(t *testing.T, fsys *vfs.Mem, s *segment) {
			f, err := fsys.OpenReadWrite(s.path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := f.Truncate(s.size.Load() - 8); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, which := range []string{"first", "last"} {
			t.Run(name+" of the "+which, func(t *testing.T) {
				fsys, l := checked(t)
				whole, _, err := checkAll(l, 0, 100)
				if len(whole) > 0 || err != nil {
					t.Fatalf("before: %v, %v", whole, err)
				}
				s := l.view()[0]
				if which == "last" {
					s = l.view()[len(l.view())-1]
				}
				harm(t, fsys, s)
				found, _, err := checkAll(l, 0, 100)
				if err != nil || len(found) != 1 || found[0].Path != s.path || found[0].From < s.base || found[0].Next > s.endOffset() {
					t.Errorf("found %v, %v in %s", found, err, s.path)
				}
			})
		}
	}
}

func TestCheckContinuesFromOffset(t *testing.T) {
	_, l := checked(t)
	_, all, err := checkAll(l, 0, 1<<20)
	if err != nil || int64(all) != l.Bytes() {
		t.Errorf("%d bytes of %d, %v", all, l.Bytes(), err)
	}
	from := l.view()[2].base
	_, rest, err := checkAll(l, from+1, 1<<20)
	if want := l.EndPosition() - l.view()[2].basePos; err != nil || int64(rest) != want {
		t.Errorf("from %d: %d bytes, want %d, %v", from, rest, want, err)
	}
	c := NewChecker(l, from)
	defer c.Close()
	if n, done, err := c.Step(1, nil); n == 0 || done || err != nil || c.Next() != from {
		t.Errorf("%d bytes, done %v, %v, next %d", n, done, err, c.Next())
	}
}

// Files beside the segments are rewritten: they can be built from the segments.
func TestCheckRewritesDerivedFiles(t *testing.T) {
	for name, suffix := range map[string]string{"index": indexSuffix, "checkpoint": checkpointName} {
		for _, gone := range []bool{false, true} {
			fsys, l := checked(t)
			names, err := fsys.ReadDir(testDir)
			if err != nil {
				t.Fatal(err)
			}
			harmed := 0
			for _, file := range names {
				if !strings.HasSuffix(file, suffix) {
					continue
				}
				harmed++
				if path := filepath.Join(testDir, file); !gone {
					flip(t, fsys, path, 30)
				} else if err := fsys.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
			if found, _, err := checkAll(l, 0, 1000); harmed == 0 || len(found) > 0 || err != nil {
				t.Fatalf("%s: %d harmed, %v, %v", name, harmed, found, err)
			}
			for _, s := range l.view()[:len(l.view())-1] {
				if _, err := s.loadIndex(fsys); err != nil {
					t.Errorf("%s: %s: %v", name, s.indexPath(), err)
				}
			}
			p, err := vfs.ReadFile(fsys, filepath.Join(testDir, checkpointName), 1<<10)
			if err == nil {
				_, err = decodeCheckpoint(p)
			}
			if err != nil {
				t.Errorf("%s: the checkpoint: %v", name, err)
			}
		}
	}
}

// A log that is written, truncated, shortened and closed during a check does
// not count as damaged.
func TestCheckToleratesConcurrentChanges(t *testing.T) {
	rng := testrand.New(t)
	_, l := checked(t)
	w := mustWriter(t, l, 2)
	c := NewChecker(l, 0)
	defer c.Close()
	for range 3000 {
		switch rng.IntN(12) {
		case 0:
			if err := w.TruncateTo(l.CommittedEnd()); err != nil {
				t.Fatal(err)
			}
		case 1:
			if _, err := l.Retain(Retention{Floor: l.CommittedEnd() / 2, Now: time.Now(), Last: true}); err != nil {
				t.Fatal(err)
			}
		case 2:
			if err := w.Reset(Origin{Start: l.End() + 5, Position: l.EndPosition()}); err != nil {
				t.Fatal(err)
			}
		case 3:
			l.Commit(l.End())
		case 4, 5, 6:
			mustAppend(t, w, 1+rng.IntN(5))
		default:
			if _, done, err := c.Step(1+rng.IntN(2000), nil); err != nil {
				t.Fatal(err)
			} else if done {
				c.Close()
				c = NewChecker(l, 0)
			}
		}
	}
	l.Close()
	for range 100 {
		if _, done, err := c.Step(1000, nil); done || errors.Is(err, ErrClosed) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
