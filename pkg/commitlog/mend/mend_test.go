package mend

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/commitlog/segmenthead"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

const dir = "log"

var options = commitlog.Options{SegmentBytes: 2 << 10, FillBytes: -1, TailBytes: -1}

// newLog makes a log of several segments, of batches of different sizes and epochs, and returns its
// disk and where its batches begin.
func newLog(t *testing.T, rnd *rand.Rand) (*vfs.Mem, []seq.Offset) {
	t.Helper()
	disk := vfs.NewCrashable()
	l, _, err := commitlog.Open(disk, dir, options)
	if err != nil {
		t.Fatal(err)
	}
	var firsts []seq.Offset
	for epoch := seq.Epoch(1); epoch < 5; epoch++ {
		w, err := l.Writer(epoch)
		if err != nil {
			t.Fatal(err)
		}
		for range 8 + rnd.IntN(8) {
			b := new(commitlog.Builder)
			for range 1 + rnd.IntN(3) {
				copy(b.Next(100), bytes.Repeat([]byte{byte(rnd.IntN(256))}, 100))
			}
			added, err := w.Append(b, int64(len(firsts)))
			if err != nil {
				t.Fatal(err)
			}
			firsts = append(firsts, added.First())
		}
		if _, err := w.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	l.Commit(l.End())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return disk, firsts
}

// files returns the segment files of a log.
func files(t *testing.T, disk *vfs.Mem) (all []string) {
	t.Helper()
	names, err := disk.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if strings.HasSuffix(n, ".log") {
			all = append(all, filepath.Join(dir, n))
		}
	}
	return all
}

// harm changes a byte of a file, cuts it, or removes it.
func harm(t *testing.T, rnd *rand.Rand, disk *vfs.Mem, path string) string {
	t.Helper()
	raw, err := vfs.ReadFile(disk, path, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	at, k := rnd.IntN(len(raw)), rnd.IntN(5)
	if k == 0 {
		if err := disk.Remove(path); err != nil {
			t.Fatal(err)
		}
		return path + " is removed"
	}
	f, err := disk.OpenReadWrite(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if k == 1 {
		err = f.Truncate(int64(at))
	} else {
		_, err = f.WriteAt([]byte{raw[at] ^ byte(1+rnd.IntN(255))}, int64(at))
	}
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s: %d at %d of %d", path, k, at, len(raw))
}

// TestWhatAnotherReplicaHasMendsALog damages files of a log in any way, and puts back what is lost from a
// copy that was not damaged.
func TestWhatAnotherReplicaHasMendsALog(t *testing.T) {
	for range 300 {
		rnd := testrand.New(t)
		disk, firsts := newLog(t, rnd)
		intact := disk.CrashClone(vfs.Crash{KeepPercent: 100})
		all := files(t, disk)
		var harms []string
		for range 1 + rnd.IntN(3) {
			k := rnd.IntN(len(all))
			if k == 0 && rnd.IntN(2) == 0 || len(all) == 1 {
				continue // without the first segment a log looks as if retention had dropped it
			}
			harms = append(harms, harm(t, rnd, disk, all[k]))
			all = slices.Delete(all, k, k+1)
		}
		for round := 0; ; round++ {
			l, found, err := commitlog.Open(disk, dir, options)
			if err != nil {
				t.Fatalf("%q: %v", harms, err)
			}
			damaged := found.Damaged
			for c := commitlog.NewChecker(l, l.Start()); ; {
				_, done, err := c.Step(1<<20, nil)
				var d *commitlog.CorruptionError
				if errors.As(err, &d) {
					known := slices.ContainsFunc(damaged, func(x commitlog.Damage) bool { return x.From == d.From })
					if !known {
						damaged = append(damaged, commitlog.Damage{Path: d.Path, Position: d.Position, From: d.From, Next: d.Next})
					}
				} else if err != nil {
					t.Fatalf("%q: %v", harms, err)
				}
				if done {
					c.Close()
					break
				}
			}
			end := l.End()
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if len(damaged) == 0 {
				if want := firsts[len(firsts)-1]; end <= want {
					t.Fatalf("%q: the log ends at %d", harms, end)
				}
				break
			}
			if round == 4 {
				t.Fatalf("%q: damaged after four rounds: %+v", harms, damaged)
			}
			slices.SortFunc(damaged, func(a, b commitlog.Damage) int { return int(a.From) - int(b.From) })
			for _, d := range damaged {
				put := func(from, next seq.Offset) error { return Log(disk, dir, rangeOf(t, intact, from, next)) }
				err := put(d.From, d.Next)
				var wider *WiderError
				if errors.As(err, &wider) {
					mended := slices.ContainsFunc(damaged, func(o commitlog.Damage) bool { return o.From < d.From && o.Next > wider.From })
					if err = put(wider.From, wider.Next); mended && errors.Is(err, ErrNoFit) {
						err = nil
					}
				}
				if err != nil && !strings.Contains(err.Error(), "is intact") {
					t.Fatalf("%q: mend [%d,%d): %v", harms, d.From, d.Next, err)
				}
			}
		}
		for _, o := range firsts {
			was, err := Batch(intact, dir, o)
			if err != nil || was == nil {
				t.Fatal(o, err)
			}
			is, err := Batch(disk, dir, o)
			if err != nil || !bytes.Equal(was, is) {
				t.Fatalf("%q: the batch at %d is another: %v", harms, o, err)
			}
		}
	}
}

// rangeOf returns a range of an intact log.
func rangeOf(t *testing.T, intact *vfs.Mem, from, next seq.Offset) Range {
	t.Helper()
	r := Range{From: from, Next: next}
	for at := from; at < next; {
		raw, err := Batch(intact, dir, at)
		if err != nil || raw == nil {
			t.Fatalf("no batch at %d: %v", at, err)
		}
		b, _ := commitlog.Decode(raw)
		r.Batches, at = append(r.Batches, raw...), b.End()
	}
	return r
}

// TestWhatDoesNotFitIsRefused has a range that is intact, ends elsewhere, or gets other batches.
func TestWhatDoesNotFitIsRefused(t *testing.T) {
	rnd := testrand.New(t)
	disk, firsts := newLog(t, rnd)
	get := func(i int) []byte {
		raw, err := Batch(disk, dir, firsts[i])
		if err != nil || raw == nil {
			t.Fatal(i, err)
		}
		return raw
	}
	second, third := get(1), get(2)
	path := filepath.Join(dir, segmenthead.Name(0))
	if raw, err := Batch(disk, dir, firsts[1]+1000); raw != nil || err != nil {
		t.Errorf("a batch that is not there: %x, %v", raw, err)
	}
	before, err := vfs.ReadFile(disk, path, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]Range{
		"intact":           {firsts[1], firsts[2], second},
		"shorter":          {firsts[1], firsts[3], second},
		"longer":           {firsts[1], firsts[2], slices.Concat(second, third)},
		"others":           {firsts[1], firsts[2], third},
		"torn":             {firsts[1], firsts[2], second[:len(second)-1]},
		"of two segments":  {firsts[1], 1 << 40, second},
		"nothing":          {firsts[1], firsts[2], nil},
		"beyond a segment": {firsts[len(firsts)-1] + 100, firsts[len(firsts)-1] + 101, nil},
	} {
		if err := Log(disk, dir, r); !errors.Is(err, ErrNoFit) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A batch of another size leaves the next segment at another place.
	at := bytes.Index(before, second)
	f, err := disk.OpenReadWrite(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{^second[len(second)-9]}, int64(at+len(second)-9)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	other := build(t, firsts[1], firsts[2], 300)
	if err := Log(disk, dir, Range{firsts[1], firsts[2], other}); !errors.Is(err, ErrNoFit) {
		t.Errorf("of another size: %v", err)
	}
	if err := Log(disk, dir, Range{firsts[1], firsts[2], second}); err != nil {
		t.Error(err)
	}
	if after, err := vfs.ReadFile(disk, path, 1<<20); err != nil || !bytes.HasPrefix(before, after) {
		t.Errorf("the segment is another than before: %v", err)
	}
}

// build returns a batch of another log that covers a range.
func build(t *testing.T, from, next seq.Offset, size int) []byte {
	t.Helper()
	disk := vfs.NewCrashable()
	l, _, err := commitlog.Open(disk, dir, options)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w, err := l.Writer(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Reset(commitlog.Origin{Start: from}); err != nil {
		t.Fatal(err)
	}
	b := new(commitlog.Builder)
	for range next - from {
		b.Next(size)
	}
	added, err := w.Append(b, 0)
	if err != nil {
		t.Fatal(err)
	}
	return added.Raw()
}

// TestAPartOfADamagedRangeIsRefused has two batches damaged, one behind the other, and gets only one of them:
// its place in the file is not known without the other.
func TestAPartOfADamagedRangeIsRefused(t *testing.T) {
	for k := range 2 {
		disk, firsts := newLog(t, testrand.New(t))
		intact := disk.CrashClone(vfs.Crash{KeepPercent: 100})
		path := filepath.Join(dir, segmenthead.Name(0))
		raw, err := vfs.ReadFile(disk, path, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		f, err := disk.OpenReadWrite(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := 1; i < 3; i++ {
			b := rangeOf(t, intact, firsts[i], firsts[i+1]).Batches
			at := bytes.Index(raw, b) + len(b)/2
			if _, err := f.WriteAt([]byte{^raw[at]}, int64(at)); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		var wider *WiderError
		err = Log(disk, dir, rangeOf(t, intact, firsts[1+k], firsts[2+k]))
		if !errors.As(err, &wider) || wider.From != firsts[1] || wider.Next != firsts[3] || !errors.Is(err, ErrNoFit) {
			t.Fatalf("part %d: %v", k, err)
		}
		if err := Log(disk, dir, rangeOf(t, intact, wider.From, wider.Next)); err != nil {
			t.Error(err)
		}
		if after, err := vfs.ReadFile(disk, path, 1<<20); err != nil || !bytes.HasPrefix(raw, after) {
			t.Errorf("part %d: the segment is another than before: %v", k, err)
		}
	}
}
