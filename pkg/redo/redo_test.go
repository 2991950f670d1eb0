package redo

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/vfs"
)

const root = "data"

// small has every sync go through a journal that is often full.
func small() Options {
	return Options{Root: root, Dir: root + "/journal", FileBytes: 16 << 10, Together: 1, Age: time.Hour, Pause: time.Nanosecond}
}

func mustOpen(t *testing.T, fsys vfs.FS, o Options) *FS {
	t.Helper()
	s, _, err := Open(fsys, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// begun opens a journal and waits until its files are there.
func begun(t *testing.T, fsys vfs.FS, o Options) *FS {
	t.Helper()
	if err := vfs.MkdirAllSynced(fsys, root); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, fsys, o)
	s.journal.ready()
	s.journal.tasks.Wait()
	if !s.journal.ready() {
		t.Fatal("the journal's files were not made")
	}
	return s
}

// wanted is what a file must hold after a crash: a byte counts where it is sure.
type wanted struct {
	content []byte
	sure    []bool
	exists  bool // else it may be there or not
	exact   bool // the length is that of content
}

func (w *wanted) write(p []byte, off int64) {
	for int64(len(w.content)) < off+int64(len(p)) {
		w.content, w.sure = append(w.content, 0), append(w.sure, false)
	}
	w.exact = false
	copy(w.content[off:], p)
	clear(w.sure[off : off+int64(len(p))])
}

func (w *wanted) sync() {
	for i := range w.sure {
		w.sure[i] = true
	}
	w.exact = true
}

func (w *wanted) truncate(size int64) {
	w.exact = false
	if size < int64(len(w.content)) {
		w.content, w.sure = w.content[:size], w.sure[:size]
	}
}

// history does random things to files and keeps what must be found after a crash.
type history struct {
	t     *testing.T
	rng   *rand.Rand
	disk  *vfs.Mem
	fs    *FS
	files map[string]vfs.File
	want  map[string]*wanted

	checking bool
}

func (h *history) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *history) step() {
	name := path.Join(root, fmt.Sprint("p", h.rng.IntN(2)), fmt.Sprint("f", h.rng.IntN(3)))
	f, w := h.files[name], h.want[name]
	h.fs.o.Together = 1 + h.rng.IntN(2) // through the journal, or directly unless it is live
	switch h.rng.IntN(120) {
	case 0, 1:
		h.restart()
		return
	case 2, 3:
		h.crash()
		return
	}
	if f == nil {
		h.open(name)
		return
	}
	switch h.rng.IntN(12) {
	case 0:
		h.must(f.Close())
		delete(h.files, name)
	case 1:
		h.must(f.Close())
		delete(h.files, name)
		w.exists, w.exact = false, false
		clear(w.sure)
		h.must(h.fs.Remove(name))
		h.must(h.fs.SyncDir(path.Dir(name)))
		delete(h.want, name)
	case 2:
		size := int64(h.rng.IntN(len(w.content) + 1))
		w.truncate(size)
		h.must(f.Truncate(size))
	case 3:
		h.move(name)
	case 4, 5, 6:
		sync := vfs.File.SyncData
		if h.rng.IntN(2) == 0 {
			sync = syncInRound
		}
		h.must(sync(f))
		w.sync()
	default:
		p := bytes.Repeat([]byte{byte(1 + h.rng.IntN(255))}, 1+h.rng.IntN(900))
		off := int64(len(w.content))
		if h.rng.IntN(3) == 0 {
			off = int64(h.rng.IntN(len(w.content) + 1))
		}
		w.write(p, off)
		write := vfs.File.WriteAt
		if h.rng.IntN(2) == 0 {
			write = vfs.WriteDeferred
		}
		if _, err := write(f, p, off); err != nil {
			h.t.Fatal(err)
		}
		h.read(name, f)
	}
}

// read reads all of a file, through one of its handles, and expects what was written.
func (h *history) read(name string, f vfs.File) {
	if h.rng.IntN(4) > 0 {
		return
	}
	want, got := h.want[name].content, []byte(nil)
	var err error
	if h.rng.IntN(2) == 0 {
		got, err = vfs.ReadFile(h.fs, name, 1<<20)
	} else {
		got = make([]byte, len(want))
		err = vfs.ReadFull(f, got, 0)
	}
	if err != nil || !bytes.Equal(got, want) {
		h.t.Fatalf("%s has %d bytes that are not the %d that were written, %v", name, len(got), len(want), err)
	}
}

func (h *history) open(name string) {
	if w := h.want[name]; w != nil && h.rng.IntN(4) == 0 {
		delete(h.want, name)
	}
	if h.want[name] != nil {
		f, err := h.fs.OpenReadWrite(name)
		h.must(err)
		h.files[name] = f
		return
	}
	h.must(vfs.MkdirAllSynced(h.fs, path.Dir(name)))
	f, err := h.fs.Create(name)
	h.must(err)
	h.must(h.fs.SyncDir(path.Dir(name)))
	h.files[name], h.want[name] = f, &wanted{exists: true}
}

// restart closes everything in order, and opens the journal again.
func (h *history) restart() {
	for name, f := range h.files {
		h.must(f.Close())
		delete(h.files, name)
	}
	h.must(h.fs.Close())
	h.fs = mustOpen(h.t, h.disk, small())
	h.fs.journal.ready()
	h.fs.journal.tasks.Wait()
}

// crash continues with what a loss of power leaves.
func (h *history) crash() {
	h.checking = false
	left := h.left()
	clear(h.files)
	h.disk = left
	h.observe()
	h.fs = mustOpen(h.t, left, h.options())
	h.compare(h.fs)
	for name, w := range h.want {
		got, err := vfs.ReadFile(h.fs, name, 1<<20)
		if err != nil {
			delete(h.want, name)
			continue
		}
		*w = wanted{content: got, sure: make([]bool, len(got)), exists: true}
		w.sync()
	}
	h.fs.journal.ready()
	h.fs.journal.tasks.Wait()
	h.checking = true
}

// options are those of a start, which syncs what it wrote again at once, or file by file. So does the
// journal when it is settled.
func (h *history) options() Options {
	o := small()
	o.SyncAll = h.rng.IntN(2) == 0
	o.VolumeFrom = h.rng.IntN(4)
	return o
}

// left is what a loss of power leaves now.
func (h *history) left() *vfs.Mem {
	return h.disk.CrashClone(vfs.Crash{Rand: h.rng, KeepPercent: h.rng.IntN(101), TornPercent: h.rng.IntN(60)})
}

// observe checks what a loss of power leaves after many of the operations of the disk.
func (h *history) observe() {
	h.disk.Observe(func(vfs.Op) {
		if h.checking && h.rng.IntN(4) == 0 {
			h.check(h.left())
		}
	})
}

// move gives a file another name, over one that may be there.
func (h *history) move(name string) {
	to := name + "x"
	if h.rng.IntN(2) == 0 {
		to = path.Join(path.Dir(name), "f0")
	}
	if to == name {
		return
	}
	if f := h.files[to]; f != nil {
		h.must(f.Close())
		delete(h.files, to)
	}
	h.must(h.files[name].Close())
	delete(h.files, name)
	w := h.want[name]
	delete(h.want, name)
	delete(h.want, to)
	h.must(h.fs.Rename(name, to))
	h.must(h.fs.SyncDir(path.Dir(name)))
	h.want[to] = w
	w.exists = true
}

// check opens what a crash left.
func (h *history) check(left *vfs.Mem) {
	h.t.Helper()
	if h.rng.IntN(3) == 0 {
		h.checkHarmed(left.CrashClone(vfs.Crash{}))
	}
	s, r, err := Open(left, h.options())
	if err != nil || r.Damaged {
		h.t.Fatalf("%+v, %v", r, err)
	}
	h.compare(s)
	h.must(s.Close())
	h.compare(left.CrashClone(vfs.Crash{})) // what was replayed is durable
}

func (h *history) compare(s vfs.FS) {
	h.t.Helper()
	for name, w := range h.want {
		got, err := vfs.ReadFile(s, name, 1<<20)
		if err != nil {
			if w.exists {
				h.t.Fatalf("%s: %v", name, err)
			}
			continue
		}
		if w.exact && len(got) != len(w.content) {
			h.t.Fatalf("%s: %d bytes, %d were synced", name, len(got), len(w.content))
		}
		for i, sure := range w.sure {
			if sure && (i >= len(got) || got[i] != w.content[i]) {
				h.t.Fatalf("%s: byte %d of %d is not the one that was synced; there are %d", name, i, len(w.sure), len(got))
			}
		}
	}
}

func TestCrashAfterAnyOperationLosesNoSyncedData(t *testing.T) {
	rng := testrand.New(t)
	for range 30 {
		fsys := vfs.NewCrashable()
		h := &history{t: t, rng: rng, disk: fsys, files: map[string]vfs.File{}, want: map[string]*wanted{}}
		h.observe()
		h.fs = begun(t, fsys, small())
		h.checking = true
		for range 150 {
			h.step()
			h.fs.journal.tasks.Wait() // the observer's history is for one goroutine
		}
		h.checking = false
		for _, f := range h.files {
			h.must(f.Close())
		}
		h.must(h.fs.Close())
		h.check(h.disk.CrashClone(vfs.Crash{}))
	}
}

// filler is what stands at an offset of a file of TestManyAtOnce.
func filler(file int, off int64) byte { return byte(int64(file)*31 + off*7 + off>>8) }

func TestManyFilesAreSyncedAtOnce(t *testing.T) {
	const files, rounds = 12, 150
	rng := testrand.New(t)
	fsys := vfs.NewCrashable()
	o := small()
	o.Together = 2
	s := begun(t, fsys, o)
	var synced [files]atomic.Int64
	var running sync.WaitGroup
	for i := range files {
		f, err := s.Create(fmt.Sprintf("%s/f%d", root, i))
		if err != nil {
			t.Fatal(err)
		}
		sizes := rand.New(rand.NewPCG(rng.Uint64(), 0))
		running.Go(func() {
			end := int64(8)
			for range rounds {
				p := make([]byte, 1+sizes.IntN(600))
				for k := range p {
					p[k] = filler(i, end+int64(k))
				}
				_, err := f.WriteAt(p, end)
				end += int64(len(p))
				_, err2 := f.WriteAt(binary.BigEndian.AppendUint64(nil, uint64(end)), 0) // over what was there
				if err := errors.Join(err, err2, f.SyncData()); err != nil {
					t.Error(err)
				}
				synced[i].Store(end)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	if err := s.SyncDir(root); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		running.Wait()
		close(over)
	}()
	for {
		var least [files]int64
		for i := range files {
			least[i] = synced[i].Load()
		}
		left := fsys.CrashClone(vfs.Crash{Rand: rng, KeepPercent: rng.IntN(101), TornPercent: 30})
		again, r, err := Open(left, o)
		if err != nil || r.Damaged {
			t.Fatalf("%+v, %v", r, err)
		}
		for i := range files {
			got, err := vfs.ReadFile(again, fmt.Sprintf("%s/f%d", root, i), 1<<20)
			if err != nil || int64(len(got)) < least[i] {
				t.Fatalf("file %d has %d bytes of %d, %v", i, len(got), least[i], err)
			}
			if least[i] > 0 && binary.BigEndian.Uint64(got) < uint64(least[i]) {
				t.Fatalf("file %d has what was written at length %d, %d was synced", i, binary.BigEndian.Uint64(got), least[i])
			}
			for off := int64(8); off < least[i]; off++ {
				if got[off] != filler(i, off) {
					t.Fatalf("file %d is wrong at %d of %d", i, off, least[i])
				}
			}
		}
		select {
		case <-over:
			if err := errors.Join(again.Close(), s.Close()); err != nil {
				t.Fatal(err)
			}
			return
		default:
			if err := again.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
