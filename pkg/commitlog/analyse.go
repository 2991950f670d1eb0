package commitlog

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/pkg/commitlog/commitnote"
	"github.com/brokerd/brokerd/pkg/commitlog/segmenthead"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// analysis is the content of a log's files, and the work needed to make them a log again. It only
// reads.
type analysis struct {
	fs          vfs.FS
	dir         string
	indexBytes  int64
	alternating bool
	unproven    bool              // committed ends prove nothing
	scanAll     bool              // do not trust indexes
	synced      bool              // everything in the directory is on disk
	names       []string          // names in the directory; nil: read them
	buffers     *Buffers          // read buffers; nil: allocate new memory
	visit       func(Batch) error // called for each scanned batch; may be nil

	note       checkpoint
	noted      bool             // there is a valid checkpoint
	noteLost   bool             // there is a damaged one
	durable    seq.Offset       // everything below was certainly on disk
	known      seq.Offset       // the highest committed end ever recorded here
	commitNote commitnote.Noted // as it was read
	knownPos   int64            // the log's end, as a byte position, when that was recorded
	segments   []*found
	leftovers  []string // files to remove
	cuts       []Cut
	gaps       []Damage // between the segments
	scanned    int64
	lastEpoch  seq.Epoch

	start, end seq.Offset // of the part analysed so far
	endPos     int64
}

// found is a segment file and its content.
type found struct {
	contents
	path     string
	fileSize int64
	trusted  bool // by its index; otherwise the file was scanned
	badHead  bool // its header is damaged or was never written
	keep     bool // damage reaches to its end: the file is not changed
	short    bool // the log's last segment, intact and quickly read: it needs no index
}

// shortSegment is the size up to which the last segment gets no index when the log is opened after
// a crash: the next append would remove it, and reading the segment again is cheaper than writing
// one.
const shortSegment = scanBytes

// Cut is a torn tail: bytes after the last intact batch that were never acknowledged as durable.
type Cut struct {
	Path     string     `json:"path"`
	Position int64      `json:"position"` // where in the file
	Bytes    int64      `json:"bytes"`    // to the end of the file, preallocated space included
	From     seq.Offset `json:"from"`     // the offset at which the log ends there
}

// run analyses the directory. A missing directory is an empty log.
func (a *analysis) run() error {
	if err := a.list(); err != nil {
		return err
	}
	a.begin()
	a.durable = a.note.durable
	if !a.unproven {
		a.durable = max(a.durable, a.known)
	}
	for _, f := range a.segments {
		if f.trusted && !a.note.cutting {
			a.durable = max(a.durable, f.end)
		}
	}
	for i := 0; i < len(a.segments); i++ {
		torn, err := a.segment(i)
		if err != nil {
			return err
		}
		if torn {
			a.forget(i + 1)
		}
	}
	if a.end < a.durable {
		a.gap(a.lastPath(), 0, a.durable)
		a.endPos = max(a.endPos, a.note.durablePos, a.knownPos)
	}
	return nil
}

// committedEnd returns the highest known committed end, at most the log's end.
func (a *analysis) committedEnd() seq.Offset {
	return max(a.start, min(a.end, max(a.note.committed, a.known)))
}

// epochs returns the epochs of all segments and where each begins, in order.
func (a *analysis) epochs() []EpochStart {
	var epochs []EpochStart
	for _, f := range a.segments {
		for _, e := range f.epochs {
			if n := len(epochs); n == 0 || epochs[n-1].Epoch < e.Epoch {
				epochs = append(epochs, e)
			}
		}
	}
	return epochs
}

// list finds the files, and loads the indexes that can be trusted.
func (a *analysis) list() error {
	var err error
	if a.names == nil {
		if a.names, err = a.fs.ReadDir(a.dir); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	if slices.Contains(a.names, checkpointName) {
		if a.note, a.noted, err = readCheckpoint(a.fs, a.dir); err != nil {
			a.note, a.noted, a.noteLost = checkpoint{}, false, true
		}
	}
	if slices.Contains(a.names, commitnote.Name) {
		n, err := commitnote.Read(a.fs, a.dir)
		if err != nil {
			return err
		}
		a.known, a.knownPos, a.commitNote = n.Committed, n.Position, n
	}
	// A truncation interrupted by a crash may leave a batch, or a segment, after one that is gone:
	// that proves nothing.
	a.alternating = a.alternating && !a.note.cutting
	for _, name := range a.names {
		base, ok := segmenthead.ParseName(name)
		stem, isIndex := strings.CutSuffix(name, indexSuffix)
		switch {
		case ok:
			if err := a.open(base); err != nil {
				return err
			}
		case strings.HasSuffix(name, vfs.TempSuffix),
			isIndex && !slices.Contains(a.names, stem+segmenthead.Suffix):
			a.leftovers = append(a.leftovers, filepath.Join(a.dir, name))
		}
	}
	return nil
}

func (a *analysis) open(base seq.Offset) error {
	f := &found{path: segmentPath(a.dir, base)}
	info, err := a.fs.Stat(f.path)
	if err != nil {
		return err
	}
	f.fileSize = info.Size()
	f.contents = contents{base: base, end: base, size: segmenthead.Bytes, maxTime: noTime, basePos: -1}
	if !a.scanAll && slices.Contains(a.names, strings.TrimSuffix(filepath.Base(f.path), segmenthead.Suffix)+indexSuffix) {
		if c, ok := loadTrusted(a.fs, f.path, base, f.fileSize); ok {
			f.contents, f.trusted = *c, true
		}
	}
	a.segments = append(a.segments, f)
	return nil
}

// loadTrusted returns the content of an index file if it is intact and describes a segment of
// exactly this size.
func loadTrusted(fsys vfs.FS, path string, base seq.Offset, fileSize int64) (*contents, bool) {
	p, err := vfs.ReadFile(fsys, strings.TrimSuffix(path, segmenthead.Suffix)+indexSuffix, maxIndexFile)
	if err != nil {
		return nil, false
	}
	c, err := decodeIndex(p, path)
	return c, err == nil && c.base == base && c.size == fileSize
}

// begin determines the log's start. Segments below a recorded start are about to be removed: a
// start is recorded only at the beginning of a segment or at the log's end.
func (a *analysis) begin() {
	if !a.noted {
		// A log that a loss of power may have torn, and that never had a checkpoint, begins at 0.
		// If its first segment begins later, the earlier segments were not synced and are gone.
		if torn := a.unproven && !a.noteLost; len(a.segments) > 0 && !torn {
			a.start, a.end = a.segments[0].base, a.segments[0].base
		}
		return
	}
	a.start, a.end, a.endPos, a.lastEpoch = a.note.start, a.note.start, a.note.durablePos, a.note.before
	for len(a.segments) > 0 && a.segments[0].base < a.start {
		a.drop(0)
	}
}

func (a *analysis) drop(i int) {
	path := a.segments[i].path
	a.leftovers = append(a.leftovers, strings.TrimSuffix(path, segmenthead.Suffix)+indexSuffix, path)
	a.segments = slices.Delete(a.segments, i, i+1)
}

// forget drops the segments from i on: they come after a torn tail.
func (a *analysis) forget(i int) {
	for len(a.segments) > i {
		last := a.segments[len(a.segments)-1]
		a.cuts = append(a.cuts, Cut{Path: last.path, Bytes: last.fileSize, From: a.end})
		a.drop(len(a.segments) - 1)
	}
}

func (a *analysis) lastPath() string {
	if len(a.segments) == 0 {
		return a.dir
	}
	return a.segments[len(a.segments)-1].path
}

// gap records that the offsets from the current end to next are lost.
func (a *analysis) gap(path string, position int64, next seq.Offset) {
	a.gaps = append(a.gaps, Damage{Path: path, Position: position, From: a.end, Next: next})
	a.end = next
}

// segment analyses segment i. It returns true if the log's torn tail begins in it: later segments
// do not count.
func (a *analysis) segment(i int) (torn bool, err error) {
	f := a.segments[i]
	if f.base < a.end {
		return false, fate.Mark(fmt.Errorf("%s begins at %d, inside the previous segment, which ends at %d", f.path, f.base, a.end), fate.Corrupt)
	}
	if f.base > a.end {
		if !a.provesLoss(f.base) {
			a.forget(i)
			return false, nil
		}
		a.gap(f.path, 0, f.base)
	}
	if f.trusted {
		a.end, a.endPos = f.end, f.basePos+f.size-segmenthead.Bytes
		if n := len(f.epochs); n > 0 {
			a.lastEpoch = max(a.lastEpoch, f.epochs[n-1].Epoch)
		}
		return false, nil
	}
	s, err := openScanner(a.fs, f.path)
	if err != nil {
		return false, err
	}
	defer s.close()
	if a.buffers != nil && s.size <= readAhead { // no batch is used after the analysis of its segment
		s.buf = a.buffers.get()
		defer func() { a.buffers.put(s.buf) }()
	}
	f.fileSize = s.size
	torn, err = a.scan(i, s)
	a.scanned += s.read
	return torn, err
}

// provesLoss reports whether an intact batch or segment at next proves that everything before it
// had been on disk.
func (a *analysis) provesLoss(next seq.Offset) bool { return next <= a.durable || a.alternating }

// scan reads a segment batch by batch.
func (a *analysis) scan(i int, s *scanner) (torn bool, err error) {
	f := a.segments[i]
	head, err := s.window(0, segmenthead.Bytes)
	if err != nil {
		return false, err
	}
	base, basePos, err := segmenthead.Decode(head)
	if err == nil && base == f.base {
		f.basePos, a.endPos = basePos, basePos
	} else {
		f.basePos, f.badHead = a.endPos, true
	}
	pos := int64(segmenthead.Bytes)
	for {
		b, err := s.batch(pos)
		if err != nil && !errors.Is(err, errNoBatch) && !errors.Is(err, ErrInvalidBatch) {
			return false, err
		}
		if err == nil && b.First() == a.end && b.Epoch() >= a.lastEpoch {
			pos, err = a.addBatch(f, b, pos)
			if err != nil {
				return false, err
			}
			continue
		}
		next, more, err := a.invalid(i, s, pos)
		if err != nil || !more {
			return a.finish(i, s, pos, err)
		}
		pos = next
	}
}

func (a *analysis) addBatch(f *found, b Batch, pos int64) (int64, error) {
	b.position = f.basePos + pos - segmenthead.Bytes
	f.add(b, pos, a.indexBytes)
	a.end, a.lastEpoch, a.known = b.End(), b.Epoch(), max(a.known, b.Committed())
	pos += int64(b.Size())
	a.endPos = f.basePos + pos - segmenthead.Bytes
	if a.visit != nil {
		return pos, a.visit(b)
	}
	return pos, nil
}

// invalid decides what a missing batch at pos means. It returns where the segment continues, if it
// does: then the range between is damaged.
func (a *analysis) invalid(i int, s *scanner, pos int64) (next int64, more bool, err error) {
	f := a.segments[i]
	if i+1 < len(a.segments) && a.segments[i+1].base == a.end {
		return 0, false, nil
	}
	if i+1 == len(a.segments) { // mostly preallocated space follows: no batch to search for
		if zero, err := s.zeroFrom(pos); err != nil || zero {
			return 0, false, err
		}
	}
	if a.end >= a.durable && !a.alternating {
		if err := a.seekProof(i, s, pos); err != nil || a.end >= a.durable {
			return 0, false, err
		}
	}
	limit := seq.Offset(math.MaxUint64)
	if i+1 < len(a.segments) {
		limit = a.segments[i+1].base
	}
	var first seq.Offset
	next, found, err := s.resync(pos, func(b Batch) bool {
		first = b.First()
		return first > a.end && b.End() <= limit && b.Epoch() >= a.lastEpoch && a.provesLoss(first)
	})
	if err != nil || !found {
		return 0, false, err
	}
	f.damage = append(f.damage, Damage{Path: f.path, Position: pos, From: a.end, Next: first})
	a.end = first
	return next, true, nil
}

// finish ends a segment at pos.
func (a *analysis) finish(i int, s *scanner, pos int64, err error) (torn bool, _ error) {
	f := a.segments[i]
	if err != nil {
		return false, err
	}
	f.size = max(f.size, segmenthead.Bytes)
	f.end = max(f.end, a.end)
	last := i == len(a.segments)-1
	lostHere := a.end < a.durable
	if !last {
		next := a.segments[i+1].base
		if next == a.end {
			return false, nil
		}
		lostHere = a.provesLoss(next)
	}
	if lostHere {
		f.keep = true
		next := a.durable
		if !last {
			next = a.segments[i+1].base
		}
		a.gap(f.path, pos, next)
		if last {
			a.endPos = max(a.endPos, a.note.durablePos, a.knownPos)
		}
		return false, nil
	}
	if f.badHead && len(f.entries) == 0 {
		a.forget(i) // it was being created
		return false, nil
	}
	zero, err := s.zeroFrom(pos)
	f.short = zero && len(f.damage) == 0 && f.size <= shortSegment
	if err == nil && !zero {
		a.cuts = append(a.cuts, Cut{Path: f.path, Position: pos, Bytes: s.size - pos, From: a.end})
	}
	return true, err
}

// seekProof searches after an invalid batch for batches whose header says that the missing records
// were committed, and raises the durable end to what they prove. This distinguishes a batch that
// was damaged after the last checkpoint from a torn tail: the leader that appended the later
// batches knew that it was committed.
func (a *analysis) seekProof(i int, s *scanner, pos int64) error {
	if a.unproven {
		return nil
	}
	follows := func(b Batch) bool { return b.First() > a.end && b.Epoch() >= a.lastEpoch }
	if err := a.collectProof(s, pos, follows); err != nil {
		return err
	}
	for _, f := range a.segments[i+1:] {
		if f.trusted {
			continue
		}
		later, err := openScanner(a.fs, f.path)
		if err != nil {
			return err
		}
		err = a.collectProof(later, segmenthead.Bytes, follows)
		a.scanned += later.read
		later.close()
		if err != nil {
			return err
		}
	}
	return nil
}

// collectProof visits the intact batches of a segment file from pos on.
func (a *analysis) collectProof(s *scanner, pos int64, accept func(Batch) bool) error {
	for {
		b, err := s.batch(pos)
		if err == nil && accept(b) {
			a.durable = max(a.durable, b.Committed())
			pos += int64(b.Size())
			continue
		}
		if err != nil && !errors.Is(err, errNoBatch) && !errors.Is(err, ErrInvalidBatch) {
			return err
		}
		next, found, err := s.resync(pos, accept)
		if err != nil || !found || next <= pos {
			return err
		}
		pos = next
	}
}
