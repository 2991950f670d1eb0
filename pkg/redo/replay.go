package redo

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/brokerd/brokerd/pkg/vfs"
)

// Report says what Open found.
type Report struct {
	Records int   // that counted
	Files   int   // that were written again
	Bytes   int64 // that were written again
	Damaged bool  // records are damaged that were acknowledged
	// OnDisk says that everything below the root was made durable, also what was never in
	// the journal.
	OnDisk bool
	// NotAtOnce is why Options.SyncAll could not be followed: what was written again was synced file by
	// file. nil: it was, or was not asked for.
	NotAtOnce error
}

// Open replays the journal of a directory and returns a file system that uses it. No
// file below o.Root may be read before.
func Open(inner vfs.FS, o Options) (*FS, Report, error) {
	o = o.withDefaults()
	s := &FS{FS: inner, o: o, files: map[string]*file{}}
	s.rounds.fs = s
	recovery := recovery{o: o, fs: inner}
	if err := recovery.replay(); err != nil {
		return nil, recovery.report, fmt.Errorf("replay redo journal in %s: %w", o.Dir, err)
	}
	s.journal = &journal{
		o: o, fs: inner, drop: func(f *file) { s.drop(f, 0) },
		halves: recovery.halves, generation: recovery.generation,
	}
	s.journal.notes = &notes{fs: inner, kept: map[string]*file{}}
	s.journal.beginLocked(0) // nobody else has it yet
	return s, recovery.report, nil
}

// Close settles all files, which must not be written any more, and ends the journal.
// What was open of it may still be closed.
func (s *FS) Close() error { return s.journal.close() }

// recovery replays a journal and prepares its files for the next use.
type recovery struct {
	o          Options
	fs         vfs.FS
	report     Report
	halves     [2]vfs.File // to continue with; nil: they are to be made
	generation uint64      // the last that was used
}

// again is a write that is to be done again: the bytes stand in the journal.
type again struct {
	off  int64
	data []byte
}

// replay writes what the journal holds into the files.
func (y *recovery) replay() error {
	images, err := y.read()
	if err != nil {
		return err
	}
	r := &y.report
	writes := map[string][]again{}
	for _, m := range images {
		m.collect(writes, r)
		y.generation = max(y.generation, m.head.generation)
	}
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

// store does all writes once more and makes them durable.
func (y *recovery) store(writes map[string][]again) error {
	if y.o.SyncAll {
		if err := y.rewriteAll(writes, func(vfs.File) error { return nil }); err != nil {
			return err
		}
		if y.report.NotAtOnce = vfs.SyncAll(y.fs, y.o.Root); y.report.NotAtOnce == nil {
			y.report.OnDisk = true
			return nil
		}
	}
	return y.rewriteAll(writes, vfs.File.SyncData)
}

// replayTogether is how many files are written again at a time: mostly they wait for
// their syncs.
const replayTogether = 16

// rewriteAll does all writes once more, and ends each file with sync.
func (y *recovery) rewriteAll(writes map[string][]again, sync func(vfs.File) error) error {
	var g errgroup.Group
	g.SetLimit(replayTogether)
	var files, bytes atomic.Int64
	for path, all := range writes {
		g.Go(func() error {
			written, err := y.rewrite(filepath.Join(y.o.Root, path), all, sync)
			if written > 0 {
				files.Add(1)
				bytes.Add(written)
			}
			return err
		})
	}
	err := g.Wait()
	y.report.Files, y.report.Bytes = int(files.Load()), bytes.Load()
	return err
}

// image is a file of the journal as it was found.
type image struct {
	half    int
	head    head
	damaged bool // the head is
	content []byte
}

// read returns the files of the journal, the older first.
func (y *recovery) read() (images []image, err error) {
	for i := range y.halves {
		content, err := vfs.ReadFile(y.fs, halfPath(y.o.Dir, i), maxHalf)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		m := image{half: i, content: content}
		m.head, err = decodeHead(content)
		m.damaged = err != nil
		images = append(images, m)
	}
	slices.SortFunc(images, func(a, b image) int { return cmp.Compare(a.head.generation, b.head.generation) })
	return images, nil
}

// maxHalf bounds what is read of a file of the journal.
const maxHalf = 4 << 30

// collect adds the writes of an image that count, and takes off those that it voids.
func (m *image) collect(writes map[string][]again, r *Report) {
	if m.damaged {
		r.Damaged = true
		return
	}
	if m.head.generation == 0 || m.head.settled {
		return
	}
	names := map[uint64]string{}
	for rest := m.content[headBytes:]; ; {
		rec, at, ok := m.next(rest)
		if !ok {
			return
		}
		if at > 0 {
			r.Damaged = true // what stands before was synced when this was written
		}
		rest = rest[min(at+rec.size, int64(len(rest))):]
		r.Records++
		err := decodeEntries(rec.entries, func(e entry) error {
			path, ok := names[e.file]
			switch {
			case e.kind == kindName:
				names[e.file] = string(e.data)
			case !ok:
				return errFormat // its name was in a record that is damaged
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
}

// next returns the next intact record, and where in rest it stands.
func (m *image) next(rest []byte) (rec record, at int64, ok bool) {
	for ; at < int64(len(rest)); at += alignment {
		rec, err := decodeRecord(rest[at:], m.head.generation)
		if err == nil {
			return rec, at, true
		}
	}
	return record{}, 0, false
}

// rewrite does writes to a file once more, and ends it with sync. A file that is gone was
// removed, or never durable.
func (y *recovery) rewrite(path string, all []again, sync func(vfs.File) error) (written int64, err error) {
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
	return written, errors.Join(sync(f), f.Close())
}

// reuse says of all images that they are settled, the older first, and continues with
// their files. Damaged ones, and those of another size, are removed.
func (y *recovery) reuse(images []image) error {
	whole := len(images) == len(y.halves) && !y.report.Damaged
	for _, m := range images {
		path := halfPath(y.o.Dir, m.half)
		f, err := y.fs.OpenReadWrite(path)
		if err != nil {
			return err
		}
		if m.head.generation > 0 && !m.head.settled {
			if _, err = f.WriteAt(head{m.head.generation, true}.encode(), 0); err == nil {
				err = f.SyncData()
			}
		}
		if err != nil {
			return errors.Join(err, f.Close())
		}
		whole = whole && int64(len(m.content)) == y.o.FileBytes
		y.halves[m.half] = f
	}
	if whole {
		return nil
	}
	for _, m := range images {
		if err := errors.Join(y.halves[m.half].Close(), y.fs.Remove(halfPath(y.o.Dir, m.half))); err != nil {
			return err
		}
	}
	y.halves = [2]vfs.File{}
	return y.fs.SyncDir(y.o.Dir)
}
