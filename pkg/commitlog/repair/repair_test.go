package repair

import (
	"bytes"
	"context"
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

// repairLog replaces a damaged range of a log by batches.
func repairLog(fsys vfs.FS, dir string, ranges ...Range) error {
	p, failed := Prepare(fsys, dir, ranges, nil)
	if err := errors.Join(failed...); err != nil {
		p.Discard()
		return err
	}
	_, err := p.Put()
	return err
}

// batchAt returns the batch that begins at an offset.
func batchAt(fsys vfs.FS, dir string, first seq.Offset) []byte {
	return new(Finder).InDir(context.Background(), fsys, dir).Batch(first)
}

// newLog creates a log of several segments, with batches of different sizes and epochs. It returns
// the disk and the offsets at which batches begin.
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

// harm changes a byte of a file, truncates the file, or removes it.
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

// TestOtherReplicaRepairsLog damages files of a log at random and restores the lost batches from an
// intact copy.
func TestOtherReplicaRepairsLog(t *testing.T) {
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
				put := func(from, next seq.Offset) error { return repairLog(disk, dir, rangeOf(t, intact, from, next)) }
				err := put(d.From, d.Next)
				var wider *WiderError
				repaired := false
				if errors.As(err, &wider) {
					repaired = slices.ContainsFunc(damaged, func(o commitlog.Damage) bool { return o.From < d.From && o.Next > wider.From })
					if err = put(wider.From, wider.Next); repaired && errors.Is(err, ErrNoFit) {
						err = nil
					}
				}
				if err != nil && !repaired {
					t.Fatalf("%q: repair [%d,%d): %v", harms, d.From, d.Next, err)
				}
			}
		}
		for _, o := range firsts {
			was, is := batchAt(intact, dir, o), batchAt(disk, dir, o)
			if was == nil || !bytes.Equal(was, is) {
				t.Fatalf("%q: the batch at %d is another", harms, o)
			}
		}
	}
}

// rangeOf returns a range of an intact log.
func rangeOf(t *testing.T, intact *vfs.Mem, from, next seq.Offset) Range {
	t.Helper()
	r := Range{From: from, Next: next}
	for at := from; at < next; {
		raw := batchAt(intact, dir, at)
		if raw == nil {
			t.Fatalf("no batch at %d", at)
		}
		b, _ := commitlog.Decode(raw)
		r.Batches, at = append(r.Batches, raw...), b.End()
	}
	return r
}

// TestNonMatchingBatchesAreRefused tries to repair an intact range, a range that ends elsewhere,
// and a range with other batches.
func TestNonMatchingBatchesAreRefused(t *testing.T) {
	rnd := testrand.New(t)
	disk, firsts := newLog(t, rnd)
	get := func(i int) []byte {
		raw := batchAt(disk, dir, firsts[i])
		if raw == nil {
			t.Fatal(i)
		}
		return raw
	}
	second, third := get(1), get(2)
	path := filepath.Join(dir, segmenthead.Name(0))
	if raw := batchAt(disk, dir, firsts[1]+1000); raw != nil {
		t.Errorf("a batch that is not there: %x", raw)
	}
	before, err := vfs.ReadFile(disk, path, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]Range{
		"shorter":          {firsts[1], firsts[3], second},
		"longer":           {firsts[1], firsts[2], slices.Concat(second, third)},
		"others":           {firsts[1], firsts[2], third},
		"torn":             {firsts[1], firsts[2], second[:len(second)-1]},
		"of two segments":  {firsts[1], 1 << 40, second},
		"nothing":          {firsts[1], firsts[2], nil},
		"beyond a segment": {firsts[len(firsts)-1] + 100, firsts[len(firsts)-1] + 101, nil},
	} {
		if err := repairLog(disk, dir, r); !errors.Is(err, ErrNoFit) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := repairLog(disk, dir, Range{firsts[1], firsts[2], second}); err != nil || !bytes.Equal(batchAt(disk, dir, firsts[1]), second) {
		t.Errorf("intact: %v", err)
	}
	// A batch of another size would move the next segment.
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
	if err := repairLog(disk, dir, Range{firsts[1], firsts[2], other}); !errors.Is(err, ErrNoFit) {
		t.Errorf("of another size: %v", err)
	}
	if err := repairLog(disk, dir, Range{firsts[1], firsts[2], second}); err != nil {
		t.Error(err)
	}
	if after, err := vfs.ReadFile(disk, path, 1<<20); err != nil || !bytes.HasPrefix(before, after) {
		t.Errorf("the segment is another than before: %v", err)
	}
}

// build returns a batch of another log that covers a range.
func build(t *testing.T, from, next seq.Offset, size int) []byte {
	t.Helper()
	return buildIn(t, 1, from, next, size)
}

// buildIn returns such a batch of an epoch.
func buildIn(t *testing.T, epoch seq.Epoch, from, next seq.Offset, size int) []byte {
	t.Helper()
	disk := vfs.NewCrashable()
	l, _, err := commitlog.Open(disk, dir, options)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w, err := l.Writer(epoch)
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

// TestPartOfDamagedRangeIsRefused damages two consecutive batches and offers only one of them: its
// position in the file is unknown without the other.
func TestPartOfDamagedRangeIsRefused(t *testing.T) {
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
		err = repairLog(disk, dir, rangeOf(t, intact, firsts[1+k], firsts[2+k]))
		if !errors.As(err, &wider) || wider.From != firsts[1] || wider.Next != firsts[3] || !errors.Is(err, ErrNoFit) {
			t.Fatalf("part %d: %v", k, err)
		}
		if err := repairLog(disk, dir, rangeOf(t, intact, wider.From, wider.Next)); err != nil {
			t.Error(err)
		}
		if after, err := vfs.ReadFile(disk, path, 1<<20); err != nil || !bytes.HasPrefix(raw, after) {
			t.Errorf("part %d: the segment is another than before: %v", k, err)
		}
	}
}

// TestLogIsRepairedWhileItIsWritten damages two segments, of which the last is still being written,
// and prepares the repair meanwhile. Each segment is written once.
func TestLogIsRepairedWhileItIsWritten(t *testing.T) {
	for _, where := range [][]int{{1, 3}, {1, 3, -2}, {-2}} { // counted from the end: in the last segment
		rnd := testrand.New(t)
		disk, firsts := newLog(t, rnd)
		intact := disk.CrashClone(vfs.Crash{KeepPercent: 100})
		var ranges []Range
		for _, i := range where {
			if i < 0 {
				i += len(firsts)
			}
			r := rangeOf(t, intact, firsts[i], firsts[i+1])
			ranges = append(ranges, r)
			for _, path := range files(t, disk) {
				raw, err := vfs.ReadFile(disk, path, 1<<20)
				if err != nil {
					t.Fatal(err)
				}
				if at := bytes.Index(raw, r.Batches); at >= 0 {
					flip(t, disk, path, int64(at+70))
				}
			}
		}
		l, _, err := commitlog.Open(disk, dir, options)
		if err != nil {
			t.Fatal(err)
		}
		asked := 0
		p, failed := Prepare(disk, dir, ranges, func(bytes int) bool { asked++; return bytes > headBytes })
		if err := errors.Join(failed...); err != nil || p.Empty() {
			t.Fatalf("%v: %v", where, err)
		}
		if most := 2; asked > most {
			t.Errorf("%v: %d files are written", where, asked)
		}
		w, err := l.Writer(9)
		if err != nil {
			t.Fatal(err)
		}
		b := new(commitlog.Builder)
		copy(b.Next(10), "meanwhile")
		added, err := w.Append(b, 0)
		if err != nil {
			t.Fatal(err)
		}
		last := bytes.Clone(added.Raw())
		if _, err := w.Sync(); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if repaired, err := p.Put(); len(repaired) != len(where) || err != nil {
			t.Fatalf("%v: %v, %v", where, repaired, err)
		}
		for _, o := range firsts {
			if was := batchAt(intact, dir, o); was == nil || !bytes.Equal(was, batchAt(disk, dir, o)) {
				t.Errorf("%v: the batch at %d is another", where, o)
			}
		}
		if b, _ := commitlog.Decode(last); !bytes.Equal(batchAt(disk, dir, b.First()), last) {
			t.Errorf("%v: what was appended meanwhile is gone", where)
		}
		l, found, err := commitlog.Open(disk, dir, options)
		if err != nil || len(found.Damaged) > 0 {
			t.Fatal(err, found.Damaged)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func flip(t *testing.T, disk *vfs.Mem, path string, at int64) {
	t.Helper()
	f, err := disk.OpenReadWrite(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	one := make([]byte, 1)
	if err := vfs.ReadFull(f, one, at); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{^one[0]}, at); err != nil {
		t.Fatal(err)
	}
}

// TestRepairWithoutSpaceChangesNothing repairs on a full disk, with leftover files, and with a
// batch after the damage at the end of the log.
func TestRepairWithoutSpaceChangesNothing(t *testing.T) {
	disk, firsts := newLog(t, testrand.New(t))
	intact := disk.CrashClone(vfs.Crash{KeepPercent: 100})
	all := files(t, disk)
	last := all[len(all)-1]
	r := rangeOf(t, intact, firsts[len(firsts)-1], firsts[len(firsts)-1]+1)
	raw, err := vfs.ReadFile(disk, last, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := commitlog.Decode(r.Batches)
	r.Next = b.End()
	at := bytes.Index(raw, r.Batches)
	flip(t, disk, last, int64(at+70))
	leftovers := func() (n int) {
		names, _ := disk.ReadDir(dir)
		for _, name := range names {
			if strings.HasSuffix(name, vfs.TempSuffix) {
				n++
			}
		}
		return n
	}
	p, failed := Prepare(disk, dir, []Range{r}, func(int) bool { return false })
	if !p.Empty() || !errors.Is(failed[0], errNoRoom) || leftovers() > 0 {
		t.Errorf("without room: %v, %d files", failed, leftovers())
	}
	if p, failed = Prepare(disk, dir, []Range{r}, nil); failed[0] != nil || leftovers() != 1 {
		t.Errorf("%v, %d files", failed, leftovers())
	}
	if p.Discard(); leftovers() > 0 {
		t.Error("the files are left")
	}
	l, _, err := commitlog.Open(disk, dir, options)
	if err != nil {
		t.Fatal(err)
	}
	if p, failed = Prepare(disk, dir, []Range{r}, nil); failed[0] != nil { // a leftover
		t.Fatal(failed)
	}
	w, err := l.Writer(9)
	if err != nil {
		t.Fatal(err)
	}
	more := new(commitlog.Builder)
	more.Next(50)
	added, err := w.Append(more, 0)
	if err != nil {
		t.Fatal(err)
	}
	behind := bytes.Clone(added.Raw())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if repaired, err := p.Put(); len(repaired) > 0 || !errors.Is(err, errChanged) || leftovers() > 0 {
		t.Errorf("a batch came behind it: %v, %v", repaired, err)
	}
	if err := repairLog(disk, dir, r); err != nil {
		t.Error(err)
	}
	if !bytes.Equal(batchAt(disk, dir, r.From), r.Batches) || !bytes.Equal(batchAt(disk, dir, r.Next), behind) {
		t.Error("the range, or what came behind it, is another")
	}
}

// A segment with too many false batch headers is not scanned to its end. What follows may be
// intact, and a repair must not drop it.
func TestUnreadableSegmentIsNotRepaired(t *testing.T) {
	refused := 0
	for shift := range 8 { // with forged headers, the positions of batches are unknown
		disk := vfs.NewMem()
		l, _, err := commitlog.Open(disk, dir, commitlog.Options{FillBytes: -1, TailBytes: -1})
		if err != nil {
			t.Fatal(err)
		}
		w, err := l.Writer(1)
		if err != nil {
			t.Fatal(err)
		}
		var all [3][]byte
		for i, body := range [][]byte{[]byte("before"), nil, []byte("behind")} {
			if i == 1 { // which begin as the batch before does
				forged := append(slices.Clone(all[0][:8]), 0, 0x80, 0, 0, 0, 0, 0, 0) // 32 KiB
				body = append(make([]byte, shift), bytes.Repeat(forged, 4<<10)...)
			}
			b := new(commitlog.Builder)
			copy(b.Next(len(body)), body)
			added, err := w.Append(b, int64(i))
			if err != nil {
				t.Fatal(err)
			}
			all[i] = slices.Clone(added.Raw())
		}
		if _, err := w.Sync(); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		path := files(t, disk)[0]
		intact, err := vfs.ReadFile(disk, path, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		f, err := disk.OpenReadWrite(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteAt([]byte{1}, int64(bytes.Index(intact, all[1])+20))
		_, err2 := f.WriteAt([]byte{1}, int64(bytes.Index(intact, all[1]))) // its size is unknown, too
		if err = errors.Join(err, err2, f.Close()); err != nil {
			t.Fatal(err)
		}
		err = repairLog(disk, dir, Range{1, 2, all[1]})
		now, readErr := vfs.ReadFile(disk, path, 1<<20)
		if readErr != nil {
			t.Fatal(readErr)
		}
		switch {
		case !bytes.Contains(now, all[2]):
			t.Errorf("shift %d: the batch behind is gone, %v", shift, err)
		case errors.Is(err, ErrNoFit):
			refused++
		case err != nil || !bytes.Equal(now, intact):
			t.Errorf("shift %d: %v", shift, err)
		}
	}
	if refused == 0 {
		t.Error("each segment was read to its end")
	}
}
