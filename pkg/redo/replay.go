package redo

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/brokerd/brokerd/pkg/vfs"
)

// Report is what Open found.
type Report struct {
	Records int   // valid ones
	Files   int   // that were written again
	Bytes   int64 // that were written again
	Damaged bool  // records are damaged, or cannot be read, that may have been acknowledged
	// Kept are the paths of files of the journal that this or, with Options.Compare, an earlier Open has
	// kept: see Options.Unwritable. Lacks says which files may lack what they hold. If none does, they are
	// removed, and are in Dropped instead.
	Kept    []string
	Lacks   []Lack
	Dropped []string
	// OnDisk says that everything below the root was made durable, also what was never in
	// the journal.
	OnDisk bool
	// NotAtOnce is why Options.SyncAll was not possible: the files that were written again were
	// synced one by one. nil: it was possible, or not set.
	NotAtOnce error
}

// Open replays the journal of a directory and returns a file system that uses it. No file below
// o.Root may be read before that.
func Open(inner vfs.FS, o Options) (*FS, Report, error) {
	o = o.withDefaults()
	s := &FS{FS: inner, o: o, files: map[string]*file{}}
	s.rounds.fs = s
	recovery := recovery{o: o, fs: inner, noVolume: errors.ErrUnsupported}
	if o.SyncAll || o.VolumeFrom > 0 {
		recovery.volume, recovery.noVolume = vfs.OpenVolume(inner, o.Root)
	}
	if err := recovery.replay(); err != nil {
		if recovery.volume != nil {
			err = errors.Join(err, recovery.volume.Close())
		}
		return nil, recovery.report, fmt.Errorf("replay redo journal in %s: %w", o.Dir, err)
	}
	recovery.compareKept()
	s.lacks = recovery.report.Lacks
	s.journal = &journal{
		o: o, fs: inner, volume: volume{Volume: recovery.volume}, drop: func(f *file) { s.drop(f, 0) },
		halves: recovery.halves, generation: recovery.generation,
	}
	s.journal.notes = &notes{fs: inner, kept: map[string]*file{}}
	s.journal.beginLocked(0) // no other goroutine has it yet
	return s, recovery.report, nil
}

// Lacks returns Report.Lacks of Open; of nil, nothing.
func (s *FS) Lacks() []Lack {
	if s == nil {
		return nil
	}
	return s.lacks
}

// Close settles all files and ends the journal. The files must not be written any more. Open
// handles may still be closed.
func (s *FS) Close() error { return s.journal.close() }

// recovery replays a journal and prepares its files for the next use.
type recovery struct {
	o          Options
	fs         vfs.FS
	report     Report
	volume     vfs.Volume  // of all files; nil: it is not to be synced, or cannot be
	noVolume   error       // why there is no volume
	unwritable atomic.Bool // a file lacks writes
	halves     [2]vfs.File // to continue with; nil: they have to be created
	generation uint64      // the last one that was used
}

// again is a write that has to be repeated: its bytes are in the journal.
type again struct {
	off  int64
	data []byte
}

// replay writes the content of the journal to the files.
func (y *recovery) replay() error {
	images, err := y.read()
	if err != nil {
		return err
	}
	r := &y.report
	writes, names := map[string][]again{}, map[uint64]string{}
	for _, m := range images {
		m.readNames(names)
	}
	for i, m := range images {
		m.collect(writes, names, r, lastOf(images, i))
		y.generation = max(y.generation, m.head.generation)
	}
	r.Damaged = r.Damaged || halfMissing(images)
	if r.Damaged && y.o.Damaged != nil {
		if err := y.o.Damaged(); err != nil {
			return err
		}
	}
	if err := y.store(writes); err != nil {
		return err
	}
	if len(images) == 0 {
		return nil
	}
	return y.reuse(images)
}

// store repeats all writes and makes them durable.
func (y *recovery) store(writes map[string][]again) error {
	if y.o.SyncAll {
		if err := y.rewriteAll(writes, func(vfs.File) error { return nil }); err != nil {
			return err
		}
		y.report.NotAtOnce = y.noVolume
		if y.volume != nil {
			y.report.NotAtOnce = y.volume.Sync()
		}
		if y.report.NotAtOnce == nil {
			y.report.OnDisk = true
			return nil
		}
	}
	y.report.Files, y.report.Bytes = 0, 0
	return y.rewriteAll(writes, vfs.File.SyncData)
}

// rewriteTries is how often a start tries to write a file that cannot be written: a disk may fail for
// a moment.
const rewriteTries = 3

// replayTogether is how many files are written again concurrently: most of the time they wait for
// their syncs.
const replayTogether = 16

// rewriteAll repeats all writes, and calls settle at the end of each file. Files that cannot be written
// are tried again, since what they lack may have been acknowledged.
func (y *recovery) rewriteAll(writes map[string][]again, settle func(vfs.File) error) error {
	for try := 1; ; try++ {
		left, err := y.rewriteEach(writes, settle, try == rewriteTries)
		if err != nil || len(left) == 0 {
			return err
		}
		writes = left
		time.Sleep(y.o.Pause)
	}
}

// rewriteEach tries to repeat writes, and returns those of files that cannot be written; none if it is
// the last try.
func (y *recovery) rewriteEach(writes map[string][]again, settle func(vfs.File) error, last bool) (left map[string][]again, err error) {
	var g errgroup.Group
	g.SetLimit(replayTogether)
	var files, bytes atomic.Int64
	var mu sync.Mutex // guards left
	for path, all := range writes {
		g.Go(func() error {
			name := filepath.Join(y.o.Root, path)
			written, err := y.rewrite(name, all, settle)
			// A failed sync is not tried again: the system may have dropped what it could not write, also
			// what is not in the journal.
			if isDamage(err) && written == 0 && !last {
				mu.Lock()
				defer mu.Unlock()
				if left == nil {
					left = map[string][]again{}
				}
				left[path] = all
				return nil
			}
			if isDamage(err) && y.o.Unwritable != nil {
				y.unwritable.Store(true)
				return y.o.Unwritable(name, err)
			}
			if written > 0 {
				files.Add(1)
				bytes.Add(written)
			}
			return err
		})
	}
	err = g.Wait()
	y.report.Files += int(files.Load())
	y.report.Bytes += bytes.Load()
	return left, err
}

// image is a journal file as Open found it.
type image struct {
	half    int
	head    head
	damaged bool // the head is, or cannot be read
	size    int64
	content []byte // behind the head, of a file that is not settled
	holes   bool   // some of content could not be read, and is zeros
}

// counts reports whether the records of the file count.
func (m *image) counts() bool { return !m.damaged && m.head.counts() }

// read returns the files of the journal, the older first.
func (y *recovery) read() (images []image, err error) {
	for i := range y.halves {
		m := image{half: i}
		err := m.read(y.fs, halfPath(y.o.Dir, i))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		images = append(images, m)
	}
	slices.SortFunc(images, func(a, b image) int { return cmp.Compare(a.head.generation, b.head.generation) })
	return images, nil
}

// Limits of what is read of a file of the journal: its size, the bytes read at a time, and how many reads may fail
// before pieces that cannot be read are not divided any more, down to pages.
const (
	maxHalf    = 4 << 30
	readPiece  = 1 << 20
	leastPiece = 4 << 10
	mostFailed = 256
)

// euclean is EUCLEAN, with which file systems of Linux report damage of their own data.
const euclean = syscall.Errno(117)

// isDamage reports whether an error says that the disk has lost the bytes, or cannot have them in this place, and not
// that another try may succeed.
func isDamage(err error) bool {
	return errors.Is(err, syscall.EIO) || errors.Is(err, euclean) || errors.Is(err, syscall.EISDIR) || errors.Is(err, io.ErrUnexpectedEOF)
}

// read reads the head of a file, and the rest if it counts. What the disk cannot read is damage.
func (m *image) read(fsys vfs.FS, path string) error {
	f, err := fsys.Open(path)
	if err == nil {
		err = errors.Join(m.readFrom(f, path), f.Close())
	}
	if isDamage(err) {
		m.damaged = true
		return nil
	}
	return err
}

func (m *image) readFrom(f vfs.File, path string) (err error) {
	if m.size, err = f.Size(); err != nil {
		return err
	}
	if m.size > maxHalf {
		return &fs.PathError{Op: "read", Path: path, Err: vfs.ErrTooLong}
	}
	p := make([]byte, min(m.size, headBytes))
	if err := vfs.ReadFull(f, p, 0); err != nil {
		return err
	}
	if m.head, err = decodeHead(p); err != nil {
		m.damaged = true
		return nil
	}
	if !m.counts() {
		return nil
	}
	m.content = make([]byte, m.size-headBytes)
	failed := 0
	for at := int64(headBytes); at < m.size; at = (at/readPiece + 1) * readPiece {
		if err := m.readPiece(f, at, min((at/readPiece+1)*readPiece, m.size), &failed); err != nil {
			return err
		}
	}
	return nil
}

// readPiece reads what stands between two places of the file. Where that cannot be read, it reads the pages that can,
// since the system reads whole ones.
func (m *image) readPiece(f vfs.File, from, to int64, failed *int) error {
	p := m.content[from-headBytes : to-headBytes]
	err := vfs.ReadFull(f, p, from)
	if !isDamage(err) {
		return err
	}
	*failed++
	if middle := (from + to) / 2 / leastPiece * leastPiece; middle > from && *failed < mostFailed {
		if err := m.readPiece(f, from, middle, failed); err != nil {
			return err
		}
		return m.readPiece(f, middle, to, failed)
	}
	clear(p)
	m.holes = true
	return nil
}

// lastOf returns the number of the last record that a file held, as the newer one says; 0: it is not known.
func lastOf(images []image, i int) uint64 {
	if i+1 < len(images) && images[i+1].head.generation == images[i].head.generation+1 {
		return images[i+1].head.before
	}
	return 0
}

// halfMissing reports whether the newest records count, and the file is not there that was written before them or
// behind them: the files are made together, and removed once neither counts.
func halfMissing(images []image) bool {
	if len(images) == 0 {
		return false
	}
	older, newest := images[0], images[len(images)-1]
	if !newest.counts() {
		return false
	}
	return len(images) == 1 || newest.head.before > 0 && older.head.generation+1 != newest.head.generation
}

// readNames adds the names that stand in an image that counts.
func (m *image) readNames(names map[uint64]string) {
	if !m.counts() {
		return
	}
	for rest := m.content; ; {
		rec, at, ok := m.next(rest)
		if !ok {
			return
		}
		rest = rest[min(at+rec.size, int64(len(rest))):]
		_ = decodeEntries(rec.entries, func(e entry) error { // collect reports the error
			if e.kind == kindName {
				names[e.file] = string(e.data)
			}
			return nil
		})
	}
}

// collect adds the writes of an image that count, and takes off those that it voids. all are the names that stand in any
// image: a file has the same number in both, since they are of one process. last is the number of its last record; 0:
// that is not known, and what cannot be read behind the records may have been one.
func (m *image) collect(writes map[string][]again, all map[uint64]string, r *Report, last uint64) {
	if m.damaged {
		r.Damaged = true
	}
	if !m.counts() {
		return
	}
	names := map[uint64]string{}
	read := uint64(0) // the number of the last record that could be read
	for rest := m.content; ; {
		rec, at, ok := m.next(rest)
		if !ok {
			break
		}
		if rec.number != read+1 {
			r.Damaged = true // what stands before was synced when this was written
		}
		read = rec.number
		rest = rest[min(at+rec.size, int64(len(rest))):]
		r.Records++
		err := decodeEntries(rec.entries, func(e entry) error {
			path, ok := names[e.file]
			if !ok {
				path, ok = all[e.file] // the record that named it here is damaged
			}
			switch {
			case e.kind == kindName:
				names[e.file] = string(e.data)
			case !ok:
				r.Damaged = true // so is each record that named it
			case e.kind == kindWrite:
				writes[path] = append(writes[path], again{e.off, e.data})
			case e.kind == kindVoid:
				delete(writes, path)
			}
			return nil
		})
		if err != nil {
			r.Damaged = true
		}
	}
	if read < last || last == 0 && m.holes {
		r.Damaged = true
	}
}

// next returns the next intact record, and its position in rest.
func (m *image) next(rest []byte) (rec record, at int64, ok bool) {
	for ; at < int64(len(rest)); at += alignment {
		rec, err := decodeRecord(rest[at:], m.head.generation)
		if err == nil {
			return rec, at, true
		}
	}
	return record{}, 0, false
}

// rewrite repeats writes to a file, and calls settle at the end. It has written nothing if it fails
// before settle. A file that does not exist was removed, or was never durable.
func (y *recovery) rewrite(path string, all []again, settle func(vfs.File) error) (written int64, err error) {
	f, err := y.fs.OpenReadWrite(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for _, a := range all {
		if _, err := f.WriteAt(a.data, a.off); err != nil {
			return 0, errors.Join(err, f.Close())
		}
		written += int64(len(a.data))
	}
	return written, errors.Join(settle(f), f.Close())
}

// reuse marks all images as settled, the older first, and continues with their files. It removes
// damaged files, and those of another size.
func (y *recovery) reuse(images []image) error {
	whole := len(images) == len(y.halves) && !y.report.Damaged
	for _, m := range images {
		if err := y.retire(m); err != nil {
			return err
		}
		whole = whole && m.size == y.o.FileBytes
	}
	if whole && !y.unwritable.Load() {
		return nil
	}
	for i, f := range y.halves {
		if f == nil {
			continue
		}
		if err := errors.Join(f.Close(), y.fs.Remove(halfPath(y.o.Dir, i))); err != nil {
			return err
		}
	}
	y.halves = [2]vfs.File{}
	return y.fs.SyncDir(y.o.Dir)
}

// retire ends the use of an image's records. They are kept aside if a file could not be written: it may be
// the only place that has them.
func (y *recovery) retire(m image) error {
	if !y.unwritable.Load() || !m.counts() {
		return y.settle(m)
	}
	path := halfPath(y.o.Dir, m.half)
	kept := fmt.Sprintf("%s%s%d", path, keptInfix, m.head.generation)
	if y.o.Compare == nil { // otherwise compareKept finds it
		y.report.Kept = append(y.report.Kept, kept)
	}
	return errors.Join(y.fs.Rename(path, kept), y.fs.SyncDir(y.o.Dir))
}

// settle says of an image durably that it does not count any more. One that could not be read is removed instead:
// a write to a part of a block has the system read the rest of it.
func (y *recovery) settle(m image) error {
	path := halfPath(y.o.Dir, m.half)
	if m.damaged || m.holes {
		return errors.Join(y.fs.RemoveAll(path), y.fs.SyncDir(y.o.Dir))
	}
	f, err := y.fs.OpenReadWrite(path)
	if err != nil {
		return err
	}
	y.halves[m.half] = f
	if !m.counts() {
		return nil
	}
	m.head.settled = true
	if _, err = f.WriteAt(m.head.encode(), 0); err == nil {
		err = f.SyncData()
	}
	return err
}
