// Package mend puts what another replica has in the place of a damaged range of a log, which
// nobody has open meanwhile.
//
// It knows segment files and batches. It does not know where the batches come from, nor whether
// they are those that were lost: that is for the caller to prove.
//
// Invariants: only the segment file of the range is replaced, in one step; a crash leaves it as it
// was or mended. No intact batch is dropped.
//
// Start at Log.
package mend

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/commitlog/segmenthead"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

const (
	// headBytes is the size of a segment's header, and alignment where batches begin in a file.
	headBytes, alignment = 64, 8
	// chunk is how much is read or copied at once, at least.
	chunk = 1 << 20
	// searchBudget bounds how much is checksummed in the search for intact batches, as a multiple of
	// the file's size.
	searchBudget = 4
)

// ErrNoFit refuses batches that do not belong into the place of a range. Nothing was changed.
var ErrNoFit = fate.Refuse("batches do not fit into the damaged range")

// Range is a range of a log that cannot be read, and what was in it.
type Range struct {
	From, Next seq.Offset
	Batches    []byte // whole batches from From up to Next, one behind the other
}

// place is an intact batch in a segment file.
type place struct {
	at         int64
	size       int
	first, end seq.Offset
	epoch      seq.Epoch
}

// segment is a segment file, and what of it is intact.
type segment struct {
	path     string
	base     seq.Offset
	position int64 // of base in the log, in bytes; below 0: its header cannot be read
	batches  []place
}

// WiderError says that more is damaged around a range: From up to Next. It is an ErrNoFit.
type WiderError struct {
	Path       string     // the segment file
	Position   int64      // where in the file the damage begins
	From, Next seq.Offset // all that is damaged there
}

// Error implements error.
func (e *WiderError) Error() string {
	return fmt.Sprintf("%s: all from offset %d to %d is damaged", e.Path, e.From, e.Next-1)
}

// Unwrap returns ErrNoFit.
func (e *WiderError) Unwrap() error { return ErrNoFit }

// Log puts batches in the place of a damaged range of the log in a directory. It is durable when Log
// returns. An error of ErrNoFit says that this range is not damaged so, or that other batches were
// in it.
func Log(fsys vfs.FS, dir string, r Range) error {
	added, err := decode(r)
	if err != nil {
		return err
	}
	before, s, after, err := around(fsys, dir, r.From)
	if err != nil {
		return err
	}
	if after != nil && r.Next > after.base {
		return fmt.Errorf("%w: offset %d is in the next segment", ErrNoFit, r.Next-1)
	}
	i := 0
	for i < len(s.batches) && s.batches[i].end <= r.From {
		i++
	}
	if i < len(s.batches) && s.batches[i].first < r.Next {
		return fmt.Errorf("%w: offset %d is intact", ErrNoFit, max(r.From, s.batches[i].first))
	}
	all := slices.Insert(slices.Clone(s.batches), i, added...)
	if !slices.IsSortedFunc(all, func(a, b place) int { return cmp.Compare(a.epoch, b.epoch) }) {
		return fmt.Errorf("%w: their epochs are not between those around", ErrNoFit)
	}
	h, err := s.hole(i, after, r)
	if err != nil {
		return err
	}
	if err := s.settle(before, after, all, h.size(int64(len(r.Batches)))); err != nil {
		return err
	}
	return s.write(fsys, h, r.Batches)
}

// hole is a place in a segment file that cannot be read.
type hole struct{ from, to, end int64 } // end: where the intact batches of the file end

// size returns how many bytes of batches a file has with so many in the hole.
func (h hole) size(n int64) int64 { return h.from - headBytes + n + h.end - h.to }

// hole returns the place before batch i of a segment, which must have room for a range and nothing else.
func (s *segment) hole(i int, after *segment, r Range) (hole, error) {
	h, wide := hole{from: headBytes}, WiderError{Path: s.path, From: s.base, Next: r.Next}
	if i > 0 {
		last := s.batches[i-1]
		h.from, wide.From = last.at+int64(last.size), last.end
	}
	h.to, h.end, wide.Position = h.from, h.from, h.from
	switch {
	case i < len(s.batches):
		last := s.batches[len(s.batches)-1]
		h.to, h.end, wide.Next = s.batches[i].at, last.at+int64(last.size), s.batches[i].first
	case after != nil:
		wide.Next = after.base
	}
	if wide.From < r.From || wide.Next > r.Next {
		return hole{}, &wide
	}
	if n := int64(len(r.Batches)); i < len(s.batches) && n != h.to-h.from {
		return hole{}, fmt.Errorf("%w: they take %d bytes, of %d", ErrNoFit, n, h.to-h.from)
	}
	return h, nil
}

// decode checks that bytes are the batches of a range.
func decode(r Range) (all []place, err error) {
	next := r.From
	for rest := r.Batches; len(rest) > 0; {
		b, err := commitlog.Decode(rest)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w: %w", ErrNoFit, err)
		case b.First() != next:
			return nil, fmt.Errorf("%w: a batch begins at %d, and not at %d", ErrNoFit, b.First(), next)
		}
		all = append(all, place{size: b.Size(), first: b.First(), end: b.End(), epoch: b.Epoch()})
		next, rest = b.End(), rest[b.Size():]
	}
	if next != r.Next {
		return nil, fmt.Errorf("%w: they end at %d, and not at %d", ErrNoFit, next, r.Next)
	}
	return all, nil
}

// around returns the segment that an offset belongs to, whose file may be gone, and those before and
// after it; nil: there is none.
func around(fsys vfs.FS, dir string, off seq.Offset) (before, s, after *segment, err error) {
	bases, err := segments(fsys, dir)
	if err != nil {
		return nil, nil, nil, err
	}
	i, found := slices.BinarySearch(bases, off)
	limit := seq.Offset(math.MaxUint64)
	if next := i + 1; found && next < len(bases) {
		limit = bases[next]
	} else if !found && i < len(bases) {
		limit = bases[i]
	}
	if limit < math.MaxUint64 {
		if after, err = read(fsys, dir, limit, math.MaxUint64, true); err != nil {
			return nil, nil, nil, err
		}
	}
	base := off
	if !found && i > 0 {
		i--
		base = bases[i]
	}
	if s, err = read(fsys, dir, base, limit, false); err == nil && s.position < 0 && i > 0 {
		before, err = read(fsys, dir, bases[i-1], base, false)
	}
	return before, s, after, err
}

// segments returns the first offsets of the segments in a directory.
func segments(fsys vfs.FS, dir string) (bases []seq.Offset, err error) {
	names, err := fsys.ReadDir(dir)
	for _, name := range names { // which are sorted, and so are the bases
		if base, ok := segmenthead.ParseName(name); ok {
			bases = append(bases, base)
		}
	}
	return bases, err
}

// settle finds out where the segment is in the log, in bytes, once it holds some batches that take
// so many bytes, and that they fit there.
func (s *segment) settle(before, after *segment, all []place, size int64) error {
	whole := after != nil && after.position >= 0 && len(all) > 0 && after.base == all[len(all)-1].end
	switch {
	case s.position >= 0 && whole && s.position+size != after.position:
		return fmt.Errorf("%w: they take %d bytes, of %d", ErrNoFit, size, after.position-s.position)
	case s.position >= 0:
	case whole && after.position >= size:
		s.position = after.position - size
	case before != nil && before.position >= 0:
		size, whole := extent(before.base, before.batches)
		if n := len(before.batches); !whole || before.batches[n-1].end != s.base {
			return fmt.Errorf("%w: the position of the segment is not known", ErrNoFit)
		}
		s.position = before.position + size
	case s.base == 0:
		s.position = 0
	default:
		return fmt.Errorf("%w: the position of the segment is not known", ErrNoFit)
	}
	return nil
}

// extent returns how many bytes batches have, and whether they follow each other from an offset on.
func extent(from seq.Offset, all []place) (bytes int64, whole bool) {
	for _, b := range all {
		if b.first != from {
			return 0, false
		}
		from, bytes = b.end, bytes+int64(b.size)
	}
	return bytes, len(all) > 0
}

// write replaces the segment by one with batches in a hole. Its index, which speaks of the
// damage, goes first: it is made again when the log is opened.
func (s *segment) write(fsys vfs.FS, h hole, batches []byte) error {
	temp := s.path + vfs.TempSuffix
	to, err := fsys.Create(temp)
	if err != nil {
		return err
	}
	err = s.fill(fsys, to, h, batches)
	if err == nil {
		err = to.SyncData()
	}
	if err = errors.Join(err, to.Close()); err == nil {
		err = removed(fsys.Remove(strings.TrimSuffix(s.path, ".log") + ".index"))
	}
	if err == nil {
		err = fsys.SyncDir(filepath.Dir(s.path))
	}
	if err == nil {
		err = fsys.Rename(temp, s.path)
	}
	if err != nil {
		return errors.Join(err, removed(fsys.Remove(temp)))
	}
	return fsys.SyncDir(filepath.Dir(s.path))
}

func removed(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// fill writes the mended segment to a file. What else is damaged in it stays as it is: batches do not
// change their places.
func (s *segment) fill(fsys vfs.FS, to vfs.File, h hole, batches []byte) error {
	if _, err := to.WriteAt(segmenthead.Encode(s.base, s.position), 0); err != nil {
		return err
	}
	if _, err := to.WriteAt(batches, h.from); err != nil || len(s.batches) == 0 {
		return err
	}
	from, err := fsys.Open(s.path)
	if err != nil {
		return err
	}
	defer from.Close()
	err = copyRange(to, headBytes, from, headBytes, h.from-headBytes)
	if err == nil {
		err = copyRange(to, h.from+int64(len(batches)), from, h.to, h.end-h.to)
	}
	return err
}

// copyRange copies n bytes from a place in a file to a place in another.
func copyRange(to vfs.File, at int64, from vfs.File, pos, n int64) error {
	buf := make([]byte, min(n, chunk))
	for n > 0 {
		p := buf[:min(n, chunk)]
		if err := vfs.ReadFull(from, p, pos); err != nil {
			return err
		}
		if _, err := to.WriteAt(p, at); err != nil {
			return err
		}
		at, pos, n = at+int64(len(p)), pos+int64(len(p)), n-int64(len(p))
	}
	return nil
}

// Batch returns the batch that begins at an offset of the log in a directory, from its disk; nil: it is
// not there, or cannot be read.
func Batch(fsys vfs.FS, dir string, first seq.Offset) ([]byte, error) {
	bases, err := segments(fsys, dir)
	if err != nil {
		return nil, err
	}
	i, found := slices.BinarySearch(bases, first)
	if !found {
		i--
	}
	if i < 0 {
		return nil, nil
	}
	s, err := read(fsys, dir, bases[i], math.MaxUint64, false)
	if err != nil {
		return nil, err
	}
	k, found := slices.BinarySearchFunc(s.batches, first, func(b place, o seq.Offset) int { return cmp.Compare(b.first, o) })
	if !found {
		return nil, nil
	}
	f, err := fsys.Open(s.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw := make([]byte, s.batches[k].size)
	return raw, vfs.ReadFull(f, raw, s.batches[k].at)
}

// read reads a segment file, whose offsets end at a limit: what of it is intact. A file that is gone
// has nothing. With head only its header is read.
func read(fsys vfs.FS, dir string, base, limit seq.Offset, head bool) (*segment, error) {
	s := &segment{path: filepath.Join(dir, segmenthead.Name(base)), base: base, position: -1}
	f, err := fsys.Open(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	w := window{file: f, size: size}
	first, err := w.at(0, headBytes)
	if err != nil {
		return nil, err
	}
	if named, position, err := segmenthead.Decode(first); err == nil && named == base {
		s.position = position
	}
	if head {
		return s, nil
	}
	return s, s.collect(&w, limit)
}

// collect finds the intact batches of a segment.
func (s *segment) collect(w *window, limit seq.Offset) error {
	next, epoch, budget := s.base, seq.Epoch(0), searchBudget*w.size
	for at := int64(headBytes); at < w.size; {
		raw, err := w.batch(at)
		if err != nil {
			return err
		}
		if budget -= int64(len(raw)); budget < 0 {
			return nil
		}
		b, err := commitlog.Decode(raw)
		switch {
		case err == nil && b.First() >= next && b.End() <= limit && b.Epoch() >= epoch:
			s.batches = append(s.batches, place{at, b.Size(), b.First(), b.End(), b.Epoch()})
			next, epoch = b.End(), b.Epoch()
			at += int64(b.Size())
		case len(raw) > 0 && w.intact(at+int64(len(raw)), next, limit):
			at += int64(len(raw)) // only what is in the batch is damaged
		default:
			at += alignment
		}
	}
	return nil
}

// window reads a file from front to back, in large pieces.
type window struct {
	file vfs.File
	size int64
	buf  []byte
	off  int64 // of buf in the file
}

// at returns n bytes at a position, or fewer where the file ends. They are valid until the next call.
func (w *window) at(pos, n int64) ([]byte, error) {
	n = max(0, min(n, w.size-pos))
	if pos < w.off || pos+n > w.off+int64(len(w.buf)) {
		w.buf, w.off = make([]byte, min(max(n, chunk), w.size-pos)), pos
		if err := vfs.ReadFull(w.file, w.buf, pos); err != nil {
			return nil, err
		}
	}
	return w.buf[pos-w.off:][:n], nil
}

// batch returns what would be the batch at a position by its header; nothing: there is no header.
func (w *window) batch(pos int64) ([]byte, error) {
	head, err := w.at(pos, 56)
	if err != nil {
		return nil, err
	}
	size, err := commitlog.BatchSize(head)
	if err != nil || pos+int64(size) > w.size {
		return nil, nil //nolint:nilerr // it is no batch
	}
	return w.at(pos, int64(size))
}

// intact reports whether an intact batch of some offsets is at a position.
func (w *window) intact(pos int64, from, limit seq.Offset) bool {
	raw, err := w.batch(pos)
	if err != nil {
		return false
	}
	b, err := commitlog.Decode(raw)
	return err == nil && b.First() > from && b.End() <= limit
}
