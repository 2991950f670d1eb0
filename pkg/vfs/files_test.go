package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/brokerd/brokerd/internal/testrand"
)

// filesFor returns a Files that lends most descriptors.
func filesFor(most int) *Files {
	f := NewFiles(0, FilesEvents{})
	f.limit = int64(most)
	return f
}

func mustCreate(t *testing.T, fsys FS, name string) File {
	t.Helper()
	f, err := fsys.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestThereMayBeMoreFilesThanDescriptors uses many files with few descriptors at
// random, and compares their content with the expected one.
func TestThereMayBeMoreFilesThanDescriptors(t *testing.T) {
	rng := testrand.New(t)
	const most = 5
	fsys := OS{Files: filesFor(most)}
	dir := t.TempDir()
	type pair struct {
		name string
		file File
		want []byte
	}
	files := make([]*pair, 30)
	for i := range files {
		name := filepath.Join(dir, strconv.Itoa(i))
		files[i] = &pair{name: name, file: mustCreate(t, fsys, name)}
	}
	for range 5000 {
		p := files[rng.IntN(len(files))]
		var err error
		switch rng.IntN(12) {
		case 0:
			size := rng.IntN(200)
			err = p.file.Truncate(int64(size))
			p.want = append(p.want, make([]byte, 200)...)[:size]
		case 1:
			err = p.file.SyncData()
		case 2:
			err = SyncAside(p.file)
		case 3:
			err = p.file.Sync()
		case 4:
			size, e := p.file.Size()
			if err = e; size != int64(len(p.want)) {
				t.Fatalf("%s has %d bytes, want %d", p.name, size, len(p.want))
			}
		case 5:
			if err = p.file.Close(); err == nil {
				p.file, err = fsys.OpenReadWrite(p.name)
			}
		case 6:
			err = p.file.Preallocate(int64(len(p.want)), 10)
			p.want = append(p.want, make([]byte, 10)...)
			if len(p.want) > 1000 {
				err = errors.Join(err, p.file.Truncate(0))
				p.want = nil
			}
		case 7:
			DropCache(p.file, 0, int64(len(p.want)))
		case 8, 9:
			got := make([]byte, len(p.want))
			if _, err = p.file.ReadAt(got, 0); !bytes.Equal(got, p.want) {
				t.Fatalf("%s holds %q, want %q", p.name, got, p.want)
			}
		default:
			at := rng.IntN(len(p.want) + 1)
			text := []byte(fmt.Sprint(rng.Uint32()))
			_, err = p.file.WriteAt(text, int64(at))
			p.want = append(p.want[:at], append(text, p.want[min(at+len(text), len(p.want)):]...)...)
		}
		if err != nil {
			t.Fatalf("%s: %v", p.name, err)
		}
		if n := len(fsys.Files.held); n > most || fsys.Files.opening != 0 {
			t.Fatalf("%d descriptors are held", n)
		}
	}
	if fsys.Files.given.Load() < 500 {
		t.Errorf("descriptors were given up %d times", fsys.Files.given.Load())
	}
	for _, p := range files {
		if err := p.file.Close(); err != nil {
			t.Error(err)
		}
		if _, err := p.file.WriteAt([]byte("x"), 0); !errors.Is(err, os.ErrClosed) || !errors.Is(p.file.Close(), os.ErrClosed) {
			t.Errorf("a file that is closed: %v", err)
		}
	}
	if n := len(fsys.Files.held); n != 0 {
		t.Errorf("%d descriptors are held for no file", n)
	}
}

// TestFilesAreUsedByMany uses files in parallel goroutines, fewer than there are
// descriptors, while another goroutine opens and closes connections.
func TestFilesAreUsedByMany(t *testing.T) {
	const users, each = 10, 5
	fsys := OS{Files: filesFor(20), Syncs: NewSyncs(2)}
	dir := t.TempDir()
	use := func(of int) error {
		files := make([]File, each)
		for i := range files {
			var err error
			if files[i], err = fsys.Create(filepath.Join(dir, fmt.Sprintf("%d-%d", of, i))); err != nil {
				return err
			}
		}
		for n := range 500 {
			f, text := files[n%each], []byte(fmt.Sprintf("%d/%d;", of, n))
			got := make([]byte, len(text))
			_, err := f.WriteAt(text, 0)
			if n%7 == 0 {
				err = errors.Join(err, f.SyncData())
			}
			if _, e := f.ReadAt(got, 0); err != nil || e != nil || !bytes.Equal(got, text) {
				return fmt.Errorf("read %q, want %q: %w, %w", got, text, err, e)
			}
		}
		var errs []error
		for _, f := range files {
			errs = append(errs, f.Close())
		}
		return errors.Join(errs...)
	}
	var all sync.WaitGroup
	for i := range users {
		all.Go(func() {
			if err := use(i); err != nil {
				t.Error(err)
			}
		})
	}
	all.Go(func() {
		for range 500 {
			fsys.Files.Elsewhere(4)
			fsys.Files.Elsewhere(-4)
		}
	})
	all.Wait()
	if n := len(fsys.Files.held); n != 0 || fsys.Files.opening != 0 {
		t.Errorf("%d descriptors are held for no file", n)
	}
}

func TestFilesInUseKeepTheirDescriptors(t *testing.T) {
	dir := t.TempDir()
	var refused []string
	fsys := OS{Files: NewFiles(4, FilesEvents{Refused: func(name string) { refused = append(refused, name) }})}
	path := func(name string) string { return filepath.Join(dir, name) }
	a, b := mustCreate(t, fsys, path("a")), mustCreate(t, fsys, path("b"))
	for _, f := range []File{a, b} {
		if _, _, err := f.(*virtualFile).begin(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := fsys.Create(path("c")); !OutOfFiles(err) || len(refused) != 1 || refused[0] != path("c") {
		t.Errorf("a third file: %v, refused %v", err, refused)
	}
	if _, err := os.Stat(path("c")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that was refused is there: %v", err)
	}
	temp := mustCreate(t, fsys, path("c"+TempSuffix)) // does not count
	if r, err := fsys.Open(path("a")); err != nil || r.Close() != nil {
		t.Errorf("reading: %v", err)
	}
	a.(*virtualFile).end()
	for range 2 { // a file that could not be opened does not count
		if _, err := fsys.OpenReadWrite(path("nothing")); !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	}
	c := mustCreate(t, fsys, path("c"))
	if a.(*virtualFile).file != nil || b.(*virtualFile).file == nil {
		t.Error("the descriptor is not that of the file which is not in use")
	}
	if err := errors.Join(a.Close(), b.Close(), c.Close(), temp.Close()); err != nil {
		t.Error(err)
	}
}

// TestFileIsDurableBeforeItGivesUpItsDescriptor uses a file that cannot be made durable: it keeps
// its descriptor, its owner gets the error, and another file gives up its descriptor.
func TestFileIsDurableBeforeItGivesUpItsDescriptor(t *testing.T) {
	dir := t.TempDir()
	fsys := OS{Files: filesFor(2)}
	bad, good := mustCreate(t, fsys, filepath.Join(dir, "bad")).(*virtualFile), mustCreate(t, fsys, filepath.Join(dir, "good")).(*virtualFile)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	disk := bad.file
	bad.file = null // it cannot be synced
	t.Cleanup(func() { disk.Close() })
	for _, f := range []File{bad, good} {
		if _, err := f.WriteAt([]byte("x"), 0); err != nil {
			t.Fatal(err)
		}
	}
	if !fsys.Files.giveUp() || good.file != nil || good.synced != good.wrote {
		t.Error("the file that can be synced did not give up its descriptor")
	}
	for fsys.Files.giveUp() {
		t.Error("another file gave up its descriptor")
	}
	if _, err := bad.WriteAt([]byte("y"), 1); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("the owner got %v", err)
	}
	if _, err := good.WriteAt([]byte("y"), 1); err != nil {
		t.Error(err)
	}
	// A sync does not cover a change that is made at the same time.
	if err := good.sync(func(*os.File) error { return good.change(func(*os.File) error { return nil }) }); err != nil || good.synced == good.wrote {
		t.Errorf("%d of %d changes are durable, %v", good.synced, good.wrote, err)
	}
	good.file, disk = null, good.file
	if err := good.SyncData(); !errors.Is(err, syscall.EINVAL) {
		t.Fatal(err)
	}
	if fsys.Files.giveUp() || good.failed != nil {
		t.Error("a file is synced again after an error")
	}
	disk.Close()
}

// TestFileIsOpenedAgainByItsName gives the names of files to other files while they
// have no descriptor.
func TestFileIsOpenedAgainByItsName(t *testing.T) {
	dir := t.TempDir()
	fsys := OS{Files: filesFor(1)}
	path := func(name string) string { return filepath.Join(dir, name) }
	replaced, removed := mustCreate(t, fsys, path("replaced")), mustCreate(t, fsys, path("removed"))
	other := mustCreate(t, fsys, path("other"))
	if _, err := other.WriteAt([]byte("other's"), 0); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(fsys.Rename(path("other"), path("replaced")), fsys.Remove(path("removed"))); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := replaced.WriteAt([]byte("mine"), 0); !errors.Is(err, errReplaced) {
			t.Errorf("a file that was replaced: %v", err)
		}
		if _, err := removed.WriteAt([]byte("mine"), 0); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a file that was removed: %v", err)
		}
	}
	if text, err := os.ReadFile(path("replaced")); err != nil || string(text) != "other's" {
		t.Errorf("the other file holds %q, %v", text, err)
	}
	if err := errors.Join(replaced.Close(), removed.Close()); err != nil {
		t.Error(err)
	}
}

func TestConnectionsTakeDescriptorsFromFiles(t *testing.T) {
	dir := t.TempDir()
	fsys := OS{Files: NewFiles(120, FilesEvents{})}
	for i := range 80 {
		defer mustCreate(t, fsys, filepath.Join(dir, strconv.Itoa(i))).Close()
	}
	for _, of := range []struct{ elsewhere, held int }{{0, 60}, {8, 52}, {30, 30}, {20, 30}, {-58, 30}} {
		fsys.Files.Elsewhere(of.elsewhere)
		if n := len(fsys.Files.held); n != of.held {
			t.Errorf("%d more elsewhere: %d are held, want %d", of.elsewhere, n, of.held)
		}
	}
	(*Files)(nil).Elsewhere(1)
}

func TestSomeDescriptorsAreReserved(t *testing.T) {
	for limit, most := range map[int]int64{0: 1, 1: 1, 64: 32, 256: 128, 1024: 896, 20_000: 18_750, 1 << 20: 1<<20 - 1<<16} {
		if got := NewFiles(limit, FilesEvents{}).most(); got != most {
			t.Errorf("of %d descriptors %d are held, want %d", limit, got, most)
		}
	}
}

// TestOpenTakesADescriptorFromAFile opens a file for reading while the process
// has no descriptor left.
func TestOpenTakesADescriptorFromAFile(t *testing.T) {
	fsys := OS{Files: filesFor(4)}
	f := mustCreate(t, fsys, filepath.Join(t.TempDir(), "f")).(*virtualFile)
	defer f.Close()
	calls := 0
	err := fsys.Files.retry(func() error {
		if calls++; f.file != nil {
			return &os.PathError{Op: "open", Path: "x", Err: syscall.EMFILE}
		}
		return nil
	})
	if err != nil || calls != 2 {
		t.Fatalf("%v after %d calls", err, calls)
	}
	for _, files := range []*Files{nil, fsys.Files} {
		if err := files.retry(func() error { return syscall.ENFILE }); !OutOfFiles(err) { // after a while
			t.Error(err)
		}
	}
}

// The spare descriptor is used if there is no other, and then opened again.
func TestSpareDescriptorIsReopened(t *testing.T) {
	f := filesFor(1)
	for name, missing := range map[string]int{"there is one": 0, "there is none": 1, "another took it": 3} {
		calls := 0
		err := f.retryWithSpare(func() error {
			if calls++; calls <= missing {
				return &os.PathError{Op: "open", Path: "x", Err: syscall.EMFILE}
			}
			if missing > 0 && f.spare != nil {
				t.Errorf("%s: the spare descriptor is kept from who needs it", name)
			}
			return nil
		})
		if err != nil || calls != missing+1 || f.spare == nil {
			t.Errorf("%s: %v after %d calls", name, err, calls)
		}
	}
	broken := errors.New("broken")
	if err := f.retryWithSpare(func() error { return broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	if err := (*Files)(nil).retryWithSpare(func() error { return syscall.ENFILE }); !OutOfFiles(err) {
		t.Error(err)
	}
}
