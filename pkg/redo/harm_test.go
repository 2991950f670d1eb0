package redo

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// unreadable has a disk on which bytes of a file cannot be read, until the file is removed.
func unreadable(disk vfs.FS, name string, from, to int64) *vfstest.Faulty {
	d := vfstest.NewFaulty(disk)
	d.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Name != name {
			return vfstest.Fault{}
		}
		switch {
		case op.Kind == vfs.OpRemove:
			d.Decide(nil)
		case op.Kind == vfs.OpRead && op.Off < to && op.Off+op.Len > from:
			return vfstest.Fault{Err: syscall.EIO}
		}
		return vfstest.Fault{}
	})
	return d
}

// startedWith opens what is left of a journal, and whether Options.Damaged was called.
func startedWith(disk vfs.FS) (s *FS, r Report, told bool, err error) {
	o := small()
	o.Damaged = func() error {
		told = true
		return nil
	}
	s, r, err = Open(disk, o)
	return s, r, told, err
}

func TestUnreadableHalfIsDamageAndReplaced(t *testing.T) {
	const block = 512
	for _, test := range []struct {
		about    string
		half     int
		from, to int64
		damaged  bool
		content  string
	}{
		{"the head", 0, 0, block, true, ""},
		{"a record before another", 0, headBytes + alignment, headBytes + 2*alignment, true, ""},
		{"a page behind the records, where there may have been another", 0, 8 << 10, 12 << 10, true, "onetwosix"},
		{"all of it", 0, 0, 1 << 30, true, ""},
		{"the half that was never used", 1, headBytes, 1 << 30, false, "onetwosix"},
		{"the head of the half that was never used", 1, 0, block, true, "onetwosix"},
	} {
		name := halfPath(small().Dir, test.half)
		left := three(t)
		disk := unreadable(left, name, test.from, test.to)
		s, r, told, err := startedWith(disk)
		if err != nil || r.Damaged != test.damaged || told != test.damaged {
			t.Errorf("%s: %+v, told %v, %v", test.about, r, told, err)
			continue
		}
		got, err := vfs.ReadFile(s, root+"/f", 100)
		if err != nil || !strings.HasPrefix(string(got), test.content) {
			t.Errorf("%s: %q, %v", test.about, got, err)
		}
		s.journal.ready()
		s.journal.tasks.Wait()
		f, err := s.OpenReadWrite(root + "/f")
		if err == nil {
			err = f.SyncData()
		}
		if err != nil {
			t.Fatal(err)
		}
		journaled(t, s, f, "new", 9)
		if err := errors.Join(f.Close(), s.Close()); err != nil {
			t.Fatal(err)
		}
		if _, r, told, err = startedWith(disk); err != nil || r.Damaged || told || r.Records > 0 {
			t.Errorf("%s, at the next start: %+v, told %v, %v", test.about, r, told, err)
		}
	}
}

// A half is read whole only where its records count.
func TestUnreadableSettledHalfIsNoDamage(t *testing.T) {
	disk := vfs.NewCrashable()
	s := begun(t, disk, small())
	f := made(t, s, root+"/f")
	journaled(t, s, f, "sure", 0)
	if err := errors.Join(f.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	for half := range 2 {
		bad := unreadable(disk.CrashClone(vfs.Crash{}), halfPath(small().Dir, half), headBytes, 1<<30)
		if _, r, told, err := startedWith(bad); err != nil || r.Damaged || told {
			t.Errorf("half %d: %+v, told %v, %v", half, r, told, err)
		}
	}
}

// The records that can be read on both sides of a page that cannot count.
func TestOnlyUnreadablePageIsLost(t *testing.T) {
	disk := vfs.NewCrashable()
	o := small()
	o.FileBytes = 4 << 20
	s := begun(t, disk, o)
	f := made(t, s, root+"/f")
	const records = 6000 // of one sector each
	for i := range int64(records) {
		journaled(t, s, f, "x", i)
	}
	bad := unreadable(disk.CrashClone(vfs.Crash{}), halfPath(o.Dir, 0), 2<<20+100, 2<<20+101)
	_, r, err := Open(bad, o)
	if err != nil || !r.Damaged || r.Records != records-(leastPiece/alignment) {
		t.Errorf("%+v, %v", r, err)
	}
	if n := bad.Count() - records; n > 100 { // it writes each once
		t.Errorf("it took %d operations", n)
	}
	if err := errors.Join(f.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
}

// A disk that can read nothing is not asked for each page.
func TestDeadDiskIsNotReadPageByPage(t *testing.T) {
	disk := vfs.NewCrashable()
	o := small()
	o.FileBytes = 8 << 20
	s := begun(t, disk, o)
	journaled(t, s, made(t, s, root+"/f"), "x", 0)
	bad := unreadable(disk.CrashClone(vfs.Crash{}), halfPath(o.Dir, 0), headBytes, 1<<30)
	_, r, err := Open(bad, o)
	if err != nil || !r.Damaged || r.Records > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if n := bad.Count(); n > 2*mostFailed {
		t.Errorf("it took %d operations", n)
	}
}

// Whether another try may find the bytes decides what an error of a read means.
// TestUnwritableFileAffectsNoOtherFile replays the journal of three files, of which one is in a damaged place of the
// disk, also if all are to be synced together.
func TestUnwritableFileAffectsNoOtherFile(t *testing.T) {
	for _, test := range []struct {
		kind    vfs.OpKind
		err     error
		syncAll bool
	}{
		{vfs.OpWrite, syscall.EIO, false},
		{vfs.OpWrite, syscall.EUCLEAN, true},
		{vfs.OpOpen, syscall.EIO, false},
		{vfs.OpSyncData, syscall.EIO, false},
	} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			fsys := vfs.NewCrashable()
			s := begun(t, fsys, small())
			for _, name := range []string{"a", "b", "c"} {
				journaled(t, s, made(t, s, root+"/"+name), name, 0)
			}
			left := fsys.CrashClone(vfs.Crash{})
			disk := vfstest.NewFaulty(left)
			disk.Decide(failing(test.kind, root+"/b", vfstest.Fault{Err: test.err}))
			o := small()
			o.SyncAll = test.syncAll
			if _, _, err := Open(disk, o); !errors.Is(err, test.err) {
				t.Fatalf("without Options.Unwritable: %v", err)
			}
			told := []string{}
			o.Unwritable = func(path string, err error) error {
				told = append(told, path)
				return nil
			}
			disk.Decide(failing(test.kind, root+"/b", vfstest.Fault{Err: syscall.ENOSPC}))
			if _, _, err := Open(disk, o); !errors.Is(err, syscall.ENOSPC) || len(told) > 0 {
				t.Fatalf("another try may succeed: %q, %v", told, err)
			}
			disk.Decide(failing(test.kind, root+"/b", vfstest.Fault{Err: test.err}))
			refused := errors.New("no mark can be written")
			o.Unwritable = func(string, error) error { return refused }
			if _, _, err := Open(disk, o); !errors.Is(err, refused) {
				t.Fatalf("the file cannot be marked: %v", err)
			}
			o.Unwritable = func(path string, err error) error {
				told = append(told, path)
				if !errors.Is(err, test.err) {
					t.Error(err)
				}
				return nil
			}
			s, r, err := Open(disk, o)
			if err != nil || len(r.Kept) != 1 || r.Damaged {
				t.Fatalf("%+v, %v", r, err)
			}
			if !slices.Equal(told, []string{root + "/b"}) {
				t.Errorf("told of %q", told)
			}
			for _, name := range []string{"a", "c"} {
				if got := lost(t, left, root+"/"+name); got != name {
					t.Errorf("%s has %q", name, got)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			disk.Decide(nil)
			// What was kept is the journal as it was: as such it has the writes of b.
			if err := left.Rename(r.Kept[0], halfPath(o.Dir, 0)); err != nil {
				t.Fatal(err)
			}
			if _, r, err := Open(left, o); err != nil || r.Files != 3 || len(r.Kept) > 0 {
				t.Errorf("from what was kept: %+v, %v", r, err)
			}
		})
	}
}

func TestOtherReadErrorFailsTheStart(t *testing.T) {
	left := three(t)
	d := vfstest.NewFaulty(left)
	d.Decide(failing(vfs.OpRead, halfPath(small().Dir, 0), vfstest.Fault{Err: syscall.ENOMEM}))
	if _, _, told, err := startedWith(d); !errors.Is(err, syscall.ENOMEM) || told {
		t.Errorf("told %v, %v", told, err)
	}
	d.Decide(nil)
	if _, r, _, err := startedWith(d); err != nil || r.Damaged || r.Records != 3 {
		t.Errorf("at the next start: %+v, %v", r, err)
	}
}

// twoHalves returns what a loss of power leaves while the older half, which holds "first" and "acked" of two files, is
// being settled, and the newer one holds "newer" of a third.
func twoHalves(t *testing.T) (left *vfs.Mem, lastOfOlder int64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewCrashable()
		d := vfstest.NewFaulty(disk)
		s := begun(t, d, small())
		a, b, c := made(t, s, root+"/a"), made(t, s, root+"/b"), made(t, s, root+"/c")
		journaled(t, s, a, "first", 0)
		lastOfOlder = s.journal.tail
		journaled(t, s, b, "acked", 0)
		gate := make(chan struct{})
		d.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
			if op.Kind == vfs.OpSyncData && (op.Name == root+"/a" || op.Name == root+"/b") {
				return vfstest.Fault{Hang: gate}
			}
			return vfstest.Fault{}
		})
		if err := s.journal.submit(&request{}); err != nil { // rotate
			t.Fatal(err)
		}
		journaled(t, s, c, "newer", 0)
		left = disk.CrashClone(vfs.Crash{})
		close(gate)
		if err := errors.Join(a.Close(), b.Close(), c.Close(), s.Close()); err != nil {
			t.Fatal(err)
		}
	})
	return left, lastOfOlder
}

func TestLastRecordOfOlderHalfIsNoTornEnd(t *testing.T) {
	older, newer := halfPath(small().Dir, 0), halfPath(small().Dir, 1)
	for about, test := range map[string]struct {
		harm    func(t *testing.T, left *vfs.Mem, last int64) vfs.FS
		damaged bool
		b       string
	}{
		"nothing": {func(_ *testing.T, left *vfs.Mem, _ int64) vfs.FS { return left }, false, "acked"},
		"it is changed": {func(t *testing.T, left *vfs.Mem, last int64) vfs.FS {
			flip(t, left, older, last+recordHeader)
			return left
		}, true, ""},
		"it cannot be read": {func(_ *testing.T, left *vfs.Mem, last int64) vfs.FS {
			return unreadable(left, older, last, last+alignment)
		}, true, ""},
		"what is behind it cannot be read": {func(_ *testing.T, left *vfs.Mem, _ int64) vfs.FS {
			return unreadable(left, older, 8<<10, 1<<30)
		}, false, "acked"},
		"the file is gone": {func(t *testing.T, left *vfs.Mem, _ int64) vfs.FS {
			if err := errors.Join(left.Remove(older), left.SyncDir(small().Dir)); err != nil {
				t.Fatal(err)
			}
			return left
		}, true, ""},
		"the newer file is gone": {func(t *testing.T, left *vfs.Mem, _ int64) vfs.FS {
			if err := errors.Join(left.Remove(newer), left.SyncDir(small().Dir)); err != nil {
				t.Fatal(err)
			}
			return left
		}, true, "acked"},
		"the file is an older state": {func(t *testing.T, left *vfs.Mem, _ int64) vfs.FS {
			f, err := left.OpenReadWrite(older)
			if err == nil {
				_, err = f.WriteAt(make([]byte, headBytes), 0)
			}
			if err != nil {
				t.Fatal(err)
			}
			return left
		}, true, ""},
	} {
		left, last := twoHalves(t)
		s, r, told, err := startedWith(test.harm(t, left, last))
		if err != nil || r.Damaged != test.damaged || told != test.damaged {
			t.Errorf("%s: %+v, told %v, %v", about, r, told, err)
			continue
		}
		if got := raw(t, s, root+"/b"); got != test.b {
			t.Errorf("%s: the file holds %q", about, got)
		}
		if _, r, told, err = startedWith(left); err != nil || r.Damaged || told || r.Records > 0 {
			t.Errorf("%s, at the next start: %+v, told %v, %v", about, r, told, err)
		}
	}
}

// The loss of a record is the loss of the writes in it. Other records name its files again, or the other half does.
func TestLossOfANameIsTheLossOfOneRecord(t *testing.T) {
	t.Run("named again", func(t *testing.T) {
		disk := vfs.NewCrashable()
		o := small()
		o.FileBytes = 256 << 10
		s := begun(t, disk, o)
		f := made(t, s, root+"/f")
		for i := range int64(2 * nameAgain) {
			journaled(t, s, f, "x", i)
		}
		left := disk.CrashClone(vfs.Crash{})
		flip(t, left, halfPath(o.Dir, 0), headBytes+recordHeader)
		again, r, err := Open(left, o)
		if err != nil || !r.Damaged {
			t.Fatalf("%+v, %v", r, err)
		}
		if got, want := raw(t, again, root+"/f"), "\x00"+strings.Repeat("x", 2*nameAgain-1); got != want {
			t.Errorf("the file holds %q", got)
		}
		if err := errors.Join(f.Close(), s.Close()); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("named in the other half", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			disk := vfs.NewCrashable()
			d := vfstest.NewFaulty(disk)
			s := begun(t, d, small())
			f := made(t, s, root+"/f")
			journaled(t, s, f, "older", 0)
			gate := make(chan struct{})
			d.Decide(failing(vfs.OpSyncData, root+"/f", vfstest.Fault{Hang: gate}))
			if err := s.journal.submit(&request{}); err != nil { // rotate
				t.Fatal(err)
			}
			journaled(t, s, f, "newer", 5)
			journaled(t, s, f, "newest", 10)
			left := disk.CrashClone(vfs.Crash{})
			close(gate)
			flip(t, left, halfPath(small().Dir, 1), headBytes+recordHeader)
			again, r, told, err := startedWith(left)
			if err != nil || !r.Damaged || !told {
				t.Fatalf("%+v, told %v, %v", r, told, err)
			}
			if got, want := raw(t, again, root+"/f"), "older"+strings.Repeat("\x00", 5)+"newest"; got != want {
				t.Errorf("the file holds %q", got)
			}
			if err := errors.Join(f.Close(), s.Close()); err != nil {
				t.Fatal(err)
			}
		})
	})
}

// checkHarmed opens what a crash left, after a sector of the journal was lost: nothing that was synced is missing, or
// the start says that something may be.
func (h *history) checkHarmed(left *vfs.Mem) {
	h.t.Helper()
	at := int64(h.rng.IntN(int(small().FileBytes/alignment))) * alignment
	name := halfPath(small().Dir, h.rng.IntN(2))
	disk := vfs.FS(left)
	if older, ok := beingSettled(left); ok && h.rng.IntN(2) == 0 {
		name, at = older, headBytes+at%(8*alignment) // where there are records
		flip(h.t, left, name, at+h.rng.Int64N(recordHeader))
	} else { // elsewhere the last record may be torn
		disk = unreadable(left, name, at, at+alignment)
	}
	s, r, err := Open(disk, h.options())
	if err != nil {
		h.t.Fatalf("sector %d of %s harmed: %+v, %v", at/alignment, name, r, err)
	}
	if !r.Damaged {
		h.compare(s)
	}
	h.must(s.Close())
	if _, r, err := Open(disk, h.options()); err != nil || r.Damaged || r.Records > 0 {
		h.t.Fatalf("sector %d of %s harmed, at the next start: %+v, %v", at/alignment, name, r, err)
	}
}

// beingSettled returns the older half of a journal, if both count and the newer one holds a record.
func beingSettled(left vfs.FS) (older string, ok bool) {
	y := recovery{o: small(), fs: left}
	images, err := y.read()
	if err != nil || len(images) < 2 || !images[0].counts() || !images[1].counts() {
		return "", false
	}
	_, _, ok = images[1].next(images[1].content)
	return halfPath(small().Dir, images[0].half), ok
}

// TestSectorLossWhileBothHalvesCount has the disk lose sectors of a journal both of whose files hold records.
func TestSectorLossWhileBothHalvesCount(t *testing.T) {
	rng := testrand.New(t)
	synctest.Test(t, func(t *testing.T) {
		for range 10 {
			disk := vfs.NewCrashable()
			d := vfstest.NewFaulty(disk)
			s := begun(t, d, small())
			h := &history{t: t, rng: rng, disk: disk, fs: s, want: map[string]*wanted{}}
			files := map[string]vfs.File{}
			for _, name := range []string{root + "/a", root + "/b", root + "/c"} {
				files[name] = made(t, s, name)
				h.want[name] = &wanted{exists: true}
			}
			write := func() {
				for range 1 + rng.IntN(8) {
					name := root + "/" + string(rune('a'+rng.IntN(3)))
					w, p := h.want[name], strings.Repeat(string(rune('a'+rng.IntN(26))), 1+rng.IntN(600))
					off := int64(rng.IntN(len(w.content) + 1))
					journaled(t, s, files[name], p, off)
					w.write([]byte(p), off)
					w.sync()
				}
			}
			write()
			gate := make(chan struct{})
			d.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
				if op.Kind == vfs.OpSyncData && files[op.Name] != nil {
					return vfstest.Fault{Hang: gate}
				}
				return vfstest.Fault{}
			})
			h.must(s.journal.submit(&request{})) // rotate
			write()
			for range 40 {
				h.checkHarmed(h.left())
			}
			close(gate)
			h.must(s.Close())
		}
	})
}

// What a record says of a file whose name was in a record that is damaged costs no other file what the record holds of it.
func TestDamagedRecordAffectsNoOtherFile(t *testing.T) {
	disk := vfs.NewCrashable()
	s := begun(t, disk, small())
	a, b := made(t, s, root+"/a"), made(t, s, root+"/b")
	journaled(t, s, b, "one", 0)
	damaged := s.journal.tail
	journaled(t, s, a, "one", 0)
	var all []*request
	for _, f := range []vfs.File{a, b} {
		if _, err := vfs.WriteDeferred(f, []byte("two"), 3); err != nil {
			t.Fatal(err)
		}
		begun, _ := vfs.BeginSync(f)
		r, ok := begun.(*request)
		if !ok {
			t.Fatal("the sync has not begun")
		}
		all = append(all, r)
	}
	if err := s.journal.submit(all...); err != nil {
		t.Fatal(err)
	}
	left := disk.CrashClone(vfs.Crash{})
	flip(t, left, halfPath(small().Dir, 0), damaged+recordHeader)
	again, r, told, err := startedWith(left)
	if err != nil || !r.Damaged || !told {
		t.Fatalf("%+v, told %v, %v", r, told, err)
	}
	if got := raw(t, again, root+"/b"); got != "onetwo" {
		t.Errorf("the other file holds %q", got)
	}
}

// TestOlderHalfIsSettledFirst: a loss of power between the two leaves the newer one, and its records are repeated. With
// the older one alone they would be replaced by earlier ones.
func TestOlderHalfIsSettledFirst(t *testing.T) {
	left, _ := twoHalves(t)
	older, newer := halfPath(small().Dir, 0), halfPath(small().Dir, 1)
	var settled []string
	d := vfstest.NewFaulty(left)
	d.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Kind == vfs.OpWrite && op.Off == 0 && (op.Name == older || op.Name == newer) {
			settled = append(settled, op.Name)
		}
		return vfstest.Fault{}
	})
	s, _, _, err := startedWith(d)
	if err != nil {
		t.Fatal(err)
	}
	if len(settled) < 2 || settled[0] != older || settled[1] != newer {
		t.Errorf("settled %q, want %q first", settled, older)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
