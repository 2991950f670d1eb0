package redo

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// ledger is a file of records, each synced and then noted in another file, as a log and
// the note of its committed end are.
type ledger struct {
	t     *testing.T
	rng   *rand.Rand
	disk  *vfs.Mem
	fs    *FS
	f     vfs.File // nil: to be opened
	note  vfs.File // likewise
	path  string
	noted atomic.Int64 // records of path whose note was given
}

const (
	ledgerRecord = 300
	ledgerNote   = root + "/note"
)

func (l *ledger) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func ledgerBytes(n int64) []byte { return bytes.Repeat([]byte{byte(1 + n%250)}, ledgerRecord) }

// begin continues in a new file.
func (l *ledger) begin(number int) {
	l.noted.Store(0)
	l.path = fmt.Sprintf("%s/f%d", root, number)
	l.f = made(l.t, l.fs, l.path)
	note, err := l.fs.Create(ledgerNote)
	l.must(err)
	l.note = note
	l.must(l.fs.SyncDir(root))
}

// add writes a record, syncs and notes it.
func (l *ledger) add() {
	n := l.noted.Load() + 1
	l.fs.o.Together = 1 + l.rng.IntN(2) // through the journal, or directly unless the file is live
	write := vfs.File.WriteAt
	if l.rng.IntN(2) == 0 {
		write = vfs.WriteDeferred
	}
	_, err := write(l.f, ledgerBytes(n), (n-1)*ledgerRecord)
	l.must(err)
	if l.rng.IntN(20) == 0 {
		l.must(l.f.Sync())
	} else {
		l.must(l.f.SyncData())
	}
	p := binary.BigEndian.AppendUint64(nil, uint64(n))
	if l.rng.IntN(10) == 0 {
		_, err = l.note.WriteAt(p, 0)
	} else {
		err = vfs.WriteNote(l.note, l.f, p, 0)
	}
	l.must(err)
	l.noted.Store(n)
}

// check kills the process and damages the last record that was noted: it is as it was
// after the replay, or the note is there by which the damage is known.
func (l *ledger) check() {
	n := l.noted.Load()
	if n == 0 {
		return
	}
	left := l.disk.CrashClone(vfs.Crash{KeepPercent: 100})
	if info, err := left.Stat(l.path); err == nil && info.Size() >= n*ledgerRecord { // else it is in the journal only
		flip(l.t, left, l.path, n*ledgerRecord-1)
	}
	s, r, err := Open(left, small())
	if err != nil || r.Damaged {
		l.t.Fatalf("%+v, %v", r, err)
	}
	got, err := vfs.ReadFile(s, l.path, 1<<20)
	l.must(err)
	if bytes.Equal(got[(n-1)*ledgerRecord:n*ledgerRecord], ledgerBytes(n)) {
		return
	}
	p, err := vfs.ReadFile(s, ledgerNote, 100)
	l.must(err)
	if len(p) < 8 || int64(binary.BigEndian.Uint64(p)) < n {
		l.t.Fatalf("record %d of %s is damaged, and the note holds %d", n, l.path, p)
	}
}

func TestKillAfterAnyOperationLeavesNoteOrItsData(t *testing.T) {
	rng := testrand.New(t)
	for range 10 {
		l := &ledger{t: t, rng: rng, disk: vfs.NewCrashable()}
		l.fs = begun(t, l.disk, small())
		l.begin(0)
		l.disk.Observe(func(op vfs.Op) {
			if op.Kind != vfs.OpCreate && op.Name != root {
				l.check()
			}
		})
		for i := range 100 {
			switch rng.IntN(15) {
			case 0: // the note is opened again
				l.must(l.note.Close())
				note, err := l.fs.OpenReadWrite(ledgerNote)
				l.must(err)
				l.note = note
			case 1: // so is the file
				l.must(l.f.Close())
				f, err := l.fs.OpenReadWrite(l.path)
				l.must(err)
				l.f = f
			case 2: // another file takes over, with a new note
				l.must(errors.Join(l.f.Close(), l.note.Close()))
				l.begin(1 + i)
			default:
				l.add()
			}
			l.fs.journal.tasks.Wait() // one goroutine at a time
			l.check()
		}
		l.disk.Observe(nil)
		l.must(errors.Join(l.f.Close(), l.note.Close(), l.fs.Close()))
	}
}

// What a file holds was written behind the note that was kept for it: the note may not come
// back over it.
func TestLaterWriteReplacesANote(t *testing.T) {
	for name, replace := range map[string]func(s *FS, note, f vfs.File) error{
		"a write": func(_ *FS, note, _ vfs.File) error {
			_, err := note.WriteAt([]byte("later"), 0)
			return err
		},
		"a note": func(_ *FS, note, f vfs.File) error { return vfs.WriteNote(note, f, []byte("later"), 0) },
		"a note about another file": func(s *FS, note, _ vfs.File) error {
			other := made(t, s, root+"/g")
			journaled(t, s, other, "two", 0)
			return errors.Join(vfs.WriteNote(note, other, []byte("later"), 0), other.Sync()) // f is settled behind it
		},
		"a write to the file opened again": func(s *FS, note, _ vfs.File) error {
			err := note.Close()
			again, openErr := s.OpenReadWrite(root + "/note")
			if openErr == nil {
				_, openErr = again.WriteAt([]byte("later"), 0)
			}
			return errors.Join(err, openErr)
		},
		"a new file": func(s *FS, _, _ vfs.File) error {
			f, err := s.Create(root + "/note")
			if err == nil {
				_, err = f.WriteAt([]byte("later"), 0)
			}
			return err
		},
		"a file that was renamed": func(s *FS, _, _ vfs.File) error {
			f, err := s.Create(root + "/new")
			if err == nil {
				_, err = f.WriteAt([]byte("later"), 0)
			}
			return errors.Join(err, s.Rename(root+"/new", root+"/note"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := vfs.NewMem()
			s := begun(t, fsys, small())
			f, note := made(t, s, root+"/f"), made(t, s, root+"/note")
			journaled(t, s, f, "one", 0)
			if err := errors.Join(vfs.WriteNote(note, f, []byte("first"), 0), replace(s, note, f), s.Close()); err != nil {
				t.Fatal(err)
			}
			if got, err := vfs.ReadFile(fsys, root+"/note", 100); err != nil || string(got) != "later" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// A note is kept only while the journal holds what it is about.
func TestNoteForUnjournaledDataIsWritten(t *testing.T) {
	fsys := vfs.NewMem()
	s := begun(t, fsys, small())
	f, note := made(t, s, root+"/f"), made(t, s, root+"/note")
	noted := func() string {
		p, err := vfs.ReadFile(fsys, root+"/note", 100)
		if err != nil {
			t.Fatal(err)
		}
		return string(p)
	}
	if err := vfs.WriteNote(note, f, []byte("1"), 0); err != nil || noted() != "1" {
		t.Errorf("%q, %v", noted(), err)
	}
	journaled(t, s, f, "one", 0)
	if err := vfs.WriteNote(note, f, []byte("2"), 0); err != nil || noted() != "1" {
		t.Errorf("%q, %v", noted(), err)
	}
	if err := f.Sync(); err != nil || noted() != "2" { // directly: the journal forgets the file
		t.Errorf("%q, %v", noted(), err)
	}
	if err := vfs.WriteNote(note, f, []byte("3"), 0); err != nil || noted() != "3" {
		t.Errorf("%q, %v", noted(), err)
	}
	journaled(t, s, f, "two", 3)
	if err := vfs.WriteNote(note, f, []byte("4"), 0); err != nil || noted() != "3" {
		t.Errorf("%q, %v", noted(), err)
	}
	if err := s.Close(); err != nil || noted() != "4" {
		t.Errorf("%q, %v", noted(), err)
	}
}

// A note that is being written, since the journal forgets what it is about, does not come
// over a later one.
func TestNotesAreWrittenInOrder(t *testing.T) {
	fsys := vfs.NewMem()
	d := vfstest.NewFaulty(fsys)
	s := begun(t, d, small())
	f, note := made(t, s, root+"/f"), made(t, s, root+"/note")
	journaled(t, s, f, "one", 0)
	if err := vfs.WriteNote(note, f, []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	later, wrote := make(chan struct{}), false
	d.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Kind != vfs.OpWrite || op.Name != root+"/note" || wrote {
			return vfstest.Fault{}
		}
		wrote = true
		go func() {
			defer close(later)
			if err := vfs.WriteNote(note, f, []byte("2"), 0); err != nil {
				t.Error(err)
			}
		}()
		for range 10_000 { // as long as it is not written, the later one waits
			runtime.Gosched()
		}
		return vfstest.Fault{}
	})
	if err := f.Sync(); err != nil || !wrote {
		t.Fatalf("%v, the note was written: %v", err, wrote)
	}
	<-later
	if got, err := vfs.ReadFile(fsys, root+"/note", 100); err != nil || string(got) != "2" {
		t.Errorf("%q, %v", got, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// A note that comes while the journal is settled may be about what it does not hold any
// more when it could be written.
func TestNoteDuringSettlementIsWritten(t *testing.T) {
	fsys := vfs.NewMem()
	d := vfstest.NewFaulty(fsys)
	s := begun(t, d, small())
	f, note := made(t, s, root+"/f"), made(t, s, root+"/note")
	journaled(t, s, f, "one", 0)
	came := false
	d.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Kind == vfs.OpSyncData && op.Name == root+"/f" && !came {
			came = true
			if err := vfs.WriteNote(note, f, []byte("1"), 0); err != nil {
				t.Error(err)
			}
			if got, err := vfs.ReadFile(fsys, root+"/note", 100); err != nil || string(got) != "1" {
				t.Errorf("%q, %v", got, err)
			}
		}
		return vfstest.Fault{}
	})
	settle := func() {
		if err := s.journal.submit(&request{}); err != nil {
			t.Fatal(err)
		}
		s.journal.tasks.Wait()
	}
	if settle(); !came {
		t.Fatal("the file was not settled")
	}
	journaled(t, s, f, "two", 3)
	if err := vfs.WriteNote(note, f, []byte("2"), 0); err != nil { // it is kept again
		t.Fatal(err)
	}
	for _, want := range []string{"1", "2"} {
		if got, err := vfs.ReadFile(fsys, root+"/note", 100); err != nil || string(got) != want {
			t.Errorf("%q, %v, want %s", got, err, want)
		}
		settle()
	}
}
