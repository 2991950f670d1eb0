// Package repair replaces damaged ranges of a log by the batches of other replicas. The log may stay
// open until the files that replace its segments are ready.
//
// Known lists the damaged ranges, Sought holds the state of the search for each of them, and Gathering
// asks other nodes for them; a Copy answers, and Prepare creates the files. The package does not know
// the other nodes or who leads.
//
// Invariants: only the segment files of the ranges are replaced, each atomically; after a crash each is
// unchanged or repaired. No intact batch is dropped. A copy returns only batches that it can prove to
// be the lost ones.
//
// Start at Prepare.
package repair

import (
	"cmp"
	"context"
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
	// headBytes is the size of a segment's header, and alignment that of batches in a file.
	headBytes, alignment = 64, 8
	// chunk is the minimum that is read or copied at once.
	chunk = 1 << 20
	// searchBudget bounds how much is checksummed in the search for intact batches, as a multiple of
	// the file's size.
	searchBudget = 4
)

// Errors of a range. Nothing was changed for it.
var (
	ErrNoFit   = fate.Refuse("batches do not fit into the damaged range") // the batches are not those of the range
	errNoRoom  = fate.Refuse("the disk lacks room for the repaired segment")
	errChanged = fate.Refuse("the segment has changed since its replacement was prepared")
)

// Range is a range of a log that cannot be read, with its batches.
type Range struct {
	From, Next seq.Offset
	Batches    []byte // whole consecutive batches from From up to Next
}

// place is an intact batch in a segment file.
type place struct {
	at         int64
	size       int
	first, end seq.Offset
	epoch      seq.Epoch
	added      []byte // the batch, if it is not in the file yet
}

// behind returns the end of the batch in the file.
func (b *place) behind() int64 { return b.at + int64(b.size) }

// segment is a segment file with its intact batches.
type segment struct {
	path     string
	base     seq.Offset
	position int64 // byte position of base in the log; negative: the header cannot be read
	size     int64 // of the file
	batches  []place
}

// WiderError reports that the damage is another range than expected: From up to Next. It wraps
// ErrNoFit.
type WiderError struct {
	Path       string     // the segment file
	Position   int64      // where in the file the damage begins
	From, Next seq.Offset // the whole damaged range
}

// Error implements error.
func (e *WiderError) Error() string {
	return fmt.Sprintf("%s: what is damaged is from offset %d to %d", e.Path, e.From, e.Next-1)
}

// Unwrap returns ErrNoFit.
func (e *WiderError) Unwrap() error { return ErrNoFit }

// Prepared is a set of files that Put puts in the place of segments of a log. One goroutine may use
// it at a time.
type Prepared struct {
	fs    vfs.FS
	dir   string
	files []*file
}

// file is a file that replaces a segment.
type file struct {
	*segment
	before, after *segment // neighbouring segments; nil: none
	there         bool     // the segment's file exists
	batchesThere  int      // number of batches in that file
	ranges        []Range  // the ranges that it repairs, without their batches
	of            []int    // their indexes in the argument of Prepare
}

// Prepare creates the files that replace the damaged segments of the log in a directory, which may
// be open. A segment is read and written once for all its ranges. failed[i] is the reason for which
// range i is not repaired by them, or nil. An error that wraps ErrNoFit means that the range is not
// damaged, or contained other batches. room reports whether the disk has space for the given number
// of bytes, and is called before each file; nil: always.
func Prepare(fsys vfs.FS, dir string, ranges []Range, room func(bytes int) bool) (p *Prepared, failed []error) {
	p, failed = &Prepared{fs: fsys, dir: dir}, make([]error, len(ranges))
	for i, r := range ranges {
		f, err := p.file(r.From)
		if err == nil {
			err = f.add(r)
		}
		if failed[i] = err; err == nil {
			f.ranges, f.of = append(f.ranges, Range{From: r.From, Next: r.Next}), append(f.of, i)
		}
	}
	p.files = slices.DeleteFunc(p.files, func(f *file) bool {
		if len(f.ranges) == 0 {
			return true
		}
		err := errNoRoom
		if room == nil || room(int(f.length())) {
			err = f.prepare(fsys)
		}
		for _, i := range f.of {
			failed[i] = err
		}
		return err != nil
	})
	return p, failed
}

// file returns the file that replaces the segment with an offset.
func (p *Prepared) file(off seq.Offset) (*file, error) {
	f, err := around(p.fs, p.dir, off)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(p.files, func(o *file) bool { return o.base == f.base }); i >= 0 {
		return p.files[i], nil
	}
	if err = f.read(p.fs, p.dir); err != nil {
		return nil, err
	}
	p.files = append(p.files, f)
	return f, nil
}

// Empty reports whether no file was prepared.
func (p *Prepared) Empty() bool { return len(p.files) == 0 }

// Ranges returns the ranges that the files repair, without their batches.
func (p *Prepared) Ranges() (all []Range) {
	for _, f := range p.files {
		all = append(all, f.ranges...)
	}
	return all
}

// Put replaces the segments by the files. The log must be closed. It returns the ranges that are
// repaired, durably, and why others are not: after errChanged they must be prepared again.
func (p *Prepared) Put() (repaired []Range, err error) {
	for _, f := range p.files {
		if e := f.put(p.fs, p.dir); e != nil {
			err = errors.Join(err, fmt.Errorf("replace segment %s: %w", f.path, e), removed(p.fs.Remove(f.temp())))
			continue
		}
		repaired = append(repaired, f.ranges...)
	}
	p.files = nil
	return repaired, err
}

// Discard removes the files.
func (p *Prepared) Discard() {
	for _, f := range p.files {
		_ = p.fs.Remove(f.temp()) // otherwise Open removes it
	}
	p.files = nil
}

// add replaces a damaged range by its batches. After an error nothing is changed.
func (f *file) add(r Range) error {
	added, err := decode(r)
	if err != nil {
		return err
	}
	i, next := 0, r.From
	for i < len(f.batches) && (f.batches[i].end <= r.From || r.From < r.Next && f.batches[i].first <= next) {
		next = max(next, f.batches[i].end)
		i++
	}
	if next >= r.Next && r.From < r.Next { // the damage is only in the index or the header
		return f.settle(f.batches)
	}
	h, err := f.hole(i, r)
	if err != nil {
		return err
	}
	for k, at := 0, h.from; k < len(added); k++ {
		added[k].at = at
		at = added[k].behind()
	}
	all := slices.Insert(slices.Clone(f.batches), i, added...)
	if !slices.IsSortedFunc(all, func(a, b place) int { return cmp.Compare(a.epoch, b.epoch) }) {
		return fmt.Errorf("%w: their epochs are not between those around", ErrNoFit)
	}
	if err := f.settle(all); err != nil {
		return err
	}
	f.batches = all
	return nil
}

// hole is an unreadable part of a segment file.
type hole struct{ from, to int64 }

// hole returns the unreadable part before batch i of a segment, which must be that
// of a range.
func (f *file) hole(i int, r Range) (hole, error) {
	h, is := hole{from: headBytes}, WiderError{Path: f.path, From: f.base, Next: r.Next}
	if i > 0 {
		last := &f.batches[i-1]
		h.from, is.From = last.behind(), last.end
	}
	h.to, is.Position = h.from, h.from
	switch {
	case i < len(f.batches):
		h.to, is.Next = f.batches[i].at, f.batches[i].first
	case f.after != nil:
		is.Next = f.after.base
	}
	if is.From != r.From || is.Next != r.Next {
		return hole{}, &is
	}
	if n := int64(len(r.Batches)); i < len(f.batches) && n != h.to-h.from {
		return hole{}, fmt.Errorf("%w: they take %d bytes, of %d", ErrNoFit, n, h.to-h.from)
	}
	return h, nil
}

// decode decodes the batches of a range, and checks that they are its batches.
func decode(r Range) (all []place, err error) {
	next := r.From
	for rest := r.Batches; len(rest) > 0; {
		b, err := commitlog.Decode(rest)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w: %w", ErrNoFit, err)
		case b.First() != next:
			return nil, fmt.Errorf("%w: batch begins at offset %d, not %d", ErrNoFit, b.First(), next)
		}
		all = append(all, place{size: b.Size(), first: b.First(), end: b.End(), epoch: b.Epoch(), added: rest[:b.Size()]})
		next, rest = b.End(), rest[b.Size():]
	}
	if next != r.Next {
		return nil, fmt.Errorf("%w: they end at %d, and not at %d", ErrNoFit, next, r.Next)
	}
	return all, nil
}

// around returns the segment that contains an offset, whose file may be missing, with its neighbours.
// It reads none of them.
func around(fsys vfs.FS, dir string, off seq.Offset) (*file, error) {
	bases, err := segments(fsys, dir)
	if err != nil {
		return nil, err
	}
	named := func(base seq.Offset) *segment {
		return &segment{path: filepath.Join(dir, segmenthead.Name(base)), base: base, position: -1}
	}
	i, found := slices.BinarySearch(bases, off)
	if !found && i > 0 {
		i, found = i-1, true
	}
	f := &file{there: found}
	if f.segment = named(off); found {
		f.segment = named(bases[i])
		i++
	}
	if i > 1 {
		f.before = named(bases[i-2])
	}
	if i < len(bases) {
		f.after = named(bases[i])
	}
	return f, nil
}

// read reads the segment, and the parts of its neighbours that determine its
// position.
func (f *file) read(fsys vfs.FS, dir string) (err error) {
	limit := seq.Offset(math.MaxUint64)
	if f.after != nil {
		limit = f.after.base
		if f.after, err = read(context.Background(), fsys, dir, limit, math.MaxUint64, true); err != nil {
			return err
		}
	}
	if f.segment, err = read(context.Background(), fsys, dir, f.base, limit, false); err == nil && f.position < 0 && f.before != nil {
		f.before, err = read(context.Background(), fsys, dir, f.before.base, f.base, false)
	}
	f.batchesThere = len(f.batches)
	return err
}

// segments returns the first offsets of the segments in a directory.
func segments(fsys vfs.FS, dir string) (bases []seq.Offset, err error) {
	names, err := fsys.ReadDir(dir)
	for _, name := range names { // sorted, as are the bases
		if base, ok := segmenthead.ParseName(name); ok {
			bases = append(bases, base)
		}
	}
	return bases, err
}

// settle determines the byte position of the segment in the log, once it has some batches, and checks
// that they fit there.
func (f *file) settle(all []place) error {
	size := int64(0)
	if n := len(all); n > 0 {
		size = all[n-1].behind() - headBytes
	}
	whole := f.after != nil && f.after.position >= 0 && len(all) > 0 && f.after.base == all[len(all)-1].end
	switch before := f.before; {
	case f.position >= 0 && whole && f.position+size != f.after.position:
		return fmt.Errorf("%w: they take %d bytes, of %d", ErrNoFit, size, f.after.position-f.position)
	case f.position >= 0:
	case whole && f.after.position >= size:
		f.position = f.after.position - size
	case before != nil && before.position >= 0:
		size, whole := extent(before.base, before.batches)
		if n := len(before.batches); !whole || before.batches[n-1].end != f.base {
			return fmt.Errorf("%w: the position of the segment is not known", ErrNoFit)
		}
		f.position = before.position + size
	case f.base == 0:
		f.position = 0
	default:
		return fmt.Errorf("%w: the position of the segment is not known", ErrNoFit)
	}
	return nil
}

// extent returns the total size of batches, and whether they are consecutive from an offset on.
func extent(from seq.Offset, all []place) (bytes int64, whole bool) {
	for _, b := range all {
		if b.first != from {
			return 0, false
		}
		from, bytes = b.end, bytes+int64(b.size)
	}
	return bytes, len(all) > 0
}

// temp returns the file's name before it replaces the segment.
func (f *file) temp() string { return f.path + vfs.TempSuffix }

// ends reports whether the last batch is an added one, so that nothing follows
// it.
func (f *file) ends() bool { return len(f.batches) > 0 && f.batches[len(f.batches)-1].added != nil }

// length returns the size of the file.
func (f *file) length() int64 {
	n := int64(headBytes)
	if f.there && !f.ends() {
		n = f.size
	}
	if k := len(f.batches); k > 0 {
		n = max(n, f.batches[k-1].behind())
	}
	return n
}

// prepare writes the file. Damage that is not repaired stays, and batches keep their positions.
func (f *file) prepare(fsys vfs.FS) error {
	to, err := fsys.Create(f.temp())
	if err != nil {
		return err
	}
	err = f.fill(fsys, to)
	if err == nil {
		err = to.SyncData()
	}
	if err = errors.Join(err, to.Close()); err != nil {
		return errors.Join(err, removed(fsys.Remove(f.temp())))
	}
	f.forget()
	return nil
}

// forget frees the batches, which were written to the file.
func (f *file) forget() {
	for i := range f.batches {
		if f.batches[i].added != nil {
			f.batches[i].added = []byte{}
		}
	}
}

// put replaces the segment by the file. It first removes the index, which records the damage: Open
// creates it again.
func (f *file) put(fsys vfs.FS, dir string) error {
	now, err := around(fsys, dir, f.base)
	switch {
	case err != nil:
		return err
	case now.there != f.there, now.base != f.base, f.after != nil && (now.after == nil || now.after.base != f.after.base):
		return errChanged
	case f.ends() && f.there && f.after == nil:
		is, err := read(context.Background(), fsys, dir, f.base, math.MaxUint64, false)
		if err != nil {
			return err
		}
		if now.after != nil || len(is.batches) != f.batchesThere {
			return errChanged
		}
	case !f.ends() && f.after == nil:
		if err := f.follow(fsys); err != nil {
			return err
		}
	}
	if err := removed(fsys.Remove(strings.TrimSuffix(f.path, segmenthead.Suffix) + ".index")); err != nil {
		return err
	}
	if err := fsys.SyncDir(dir); err != nil {
		return err
	}
	if err := fsys.Rename(f.temp(), f.path); err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}

// follow copies what was appended to the segment since the file was prepared.
func (f *file) follow(fsys vfs.FS) error {
	from, err := fsys.Open(f.path)
	if err != nil {
		return err
	}
	defer from.Close()
	size, err := from.Size()
	if err != nil {
		return err
	}
	to, err := fsys.OpenReadWrite(f.temp())
	if err != nil {
		return err
	}
	end := int64(headBytes)
	if n := len(f.batches); n > 0 {
		end = f.batches[n-1].behind()
	}
	if err = to.Truncate(size); err == nil {
		err = copyRange(to, from, end, size)
	}
	if err == nil {
		err = to.SyncData()
	}
	return errors.Join(err, to.Close())
}

func removed(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// fill writes the complete file.
func (f *file) fill(fsys vfs.FS, to vfs.File) error {
	if _, err := to.WriteAt(segmenthead.Encode(f.base, f.position), 0); err != nil {
		return err
	}
	var from vfs.File
	if f.there {
		var err error
		if from, err = fsys.Open(f.path); err != nil {
			return err
		}
		defer from.Close()
	}
	at := int64(headBytes)
	for i := range f.batches {
		b := &f.batches[i]
		if b.added == nil {
			continue
		}
		if err := copyRange(to, from, at, b.at); err != nil {
			return err
		}
		if _, err := to.WriteAt(b.added, b.at); err != nil {
			return err
		}
		at = b.behind()
	}
	if f.ends() || from == nil {
		return nil
	}
	return copyRange(to, from, at, f.size)
}

// copyRange copies a range of a file to the same position in another.
func copyRange(to, from vfs.File, at, end int64) error {
	buf := make([]byte, max(0, min(end-at, chunk)))
	for at < end {
		p := buf[:min(end-at, chunk)]
		if err := vfs.ReadFull(from, p, at); err != nil {
			return err
		}
		if _, err := to.WriteAt(p, at); err != nil {
			return err
		}
		at += int64(len(p))
	}
	return nil
}
