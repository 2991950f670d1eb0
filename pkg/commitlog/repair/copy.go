package repair

import (
	"cmp"
	"context"
	"math"
	"path/filepath"
	"slices"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/commitlog/segmenthead"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// pieceBytes is the approximate maximum size of an answer.
const pieceBytes = 512 << 10

// Wanted describes the batches of a damaged range that are requested from another copy of the log,
// and what proves that the copy holds the lost batches.
type Wanted struct {
	From seq.Offset `json:"from"` // where the first batch begins
	At   int        `json:"at"`   // the first requested byte in it
	Next seq.Offset `json:"next"` // where the range ends
	// Behind is where the damage ends. If Epoch is not 0, the batch that begins there has this epoch
	// and checksum; if Last is not 0, the batch that ends there has that epoch. Either proves that a
	// copy is the same below.
	Behind seq.Offset `json:"behind"`
	Epoch  seq.Epoch  `json:"epoch,omitempty"`
	Sum    uint32     `json:"sum,omitempty"`
	Last   seq.Epoch  `json:"last,omitempty"`
}

// Provable reports whether a copy can prove that it holds the lost batches.
func (w *Wanted) Provable() bool { return w.Epoch > 0 || w.Last > 0 }

// Answer is a part of the requested bytes; empty: this copy does not hold them.
type Answer struct {
	Bytes []byte `json:"bytes,omitempty"`
	Whole bool   `json:"whole,omitempty"` // they end where a batch ends
}

// Copy is a copy of a log.
type Copy struct {
	of func(off seq.Offset) []byte // the batch that contains an offset; empty: there is no readable one
}

// Batch returns the batch that begins at an offset; empty: there is no readable one.
func (c Copy) Batch(first seq.Offset) []byte {
	if raw := c.of(first); len(raw) > 0 {
		if b, err := commitlog.Decode(raw); err == nil && b.First() == first {
			return raw
		}
	}
	return nil
}

// InLog returns the copy in an open log.
func InLog(l *commitlog.Log) Copy {
	return Copy{func(off seq.Offset) []byte {
		raw, err := l.ReadRaw(off, 1, nil)
		if err != nil {
			return nil
		}
		return raw
	}}
}

// holds reports whether the copy is the same as the damaged one below the end of the damage.
func (c Copy) holds(w Wanted) bool {
	if w.Epoch > 0 {
		if b, err := commitlog.Decode(c.Batch(w.Behind)); err == nil && b.Epoch() == w.Epoch && b.Checksum() == w.Sum {
			return true
		}
	}
	if w.Last == 0 || w.Behind == 0 {
		return false
	}
	b, err := commitlog.Decode(c.of(w.Behind - 1))
	return err == nil && b.Epoch() == w.Last && b.End() == w.Behind
}

// Answer returns whole batches of the requested range, or a part of a large one. It ends when ctx
// does.
func (c Copy) Answer(ctx context.Context, w Wanted) (a Answer) {
	if !c.holds(w) {
		return a
	}
	for w.From < w.Next && ctx.Err() == nil {
		raw := c.Batch(w.From)
		b, err := commitlog.Decode(raw)
		switch {
		case err != nil || w.At < 0 || w.At >= len(raw):
			return a
		case len(a.Bytes) > 0 && len(a.Bytes)+len(raw) > pieceBytes:
			return a
		case len(raw)-w.At > pieceBytes:
			return Answer{Bytes: raw[w.At:][:pieceBytes]}
		}
		a = Answer{append(a.Bytes, raw[w.At:]...), true}
		w.From, w.At = b.End(), 0
	}
	return a
}

// Finder finds batches in logs that are not open. It remembers the positions of the batches in the
// last few segments: finding them requires reading a whole segment, and a range needs many answers.
// The zero Finder is ready. It is not safe for concurrent use.
type Finder struct {
	last  []*segment // the latest first
	reads int        // of whole segments
}

// remembered is the number of segments whose batches a Finder remembers: those of a range and of what
// follows it, in two copies.
const remembered = 4

// InDir returns the copy in a directory. Once ctx has ended, a search in it finds nothing.
func (s *Finder) InDir(ctx context.Context, fsys vfs.FS, dir string) Copy {
	return Copy{func(off seq.Offset) []byte {
		raw, err := s.batch(ctx, fsys, dir, off)
		if err != nil {
			return nil
		}
		return raw
	}}
}

// batch reads from disk the batch that contains an offset of the log in a directory; nil if it is
// missing or cannot be read.
func (s *Finder) batch(ctx context.Context, fsys vfs.FS, dir string, off seq.Offset) ([]byte, error) {
	at, err := around(fsys, dir, off)
	if err != nil || !at.there {
		return nil, err
	}
	f, err := fsys.Open(at.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	seg, err := s.segment(ctx, fsys, dir, at.base, size)
	if err != nil {
		return nil, err
	}
	k, found := slices.BinarySearchFunc(seg.batches, off, func(b place, o seq.Offset) int { return cmp.Compare(b.first, o) })
	if !found {
		k--
	}
	if k < 0 || off >= seg.batches[k].end {
		return nil, nil
	}
	raw := make([]byte, seg.batches[k].size)
	return raw, vfs.ReadFull(f, raw, seg.batches[k].at)
}

// segment returns the intact batches of a segment file of a given size.
func (s *Finder) segment(ctx context.Context, fsys vfs.FS, dir string, base seq.Offset, size int64) (*segment, error) {
	path := filepath.Join(dir, segmenthead.Name(base))
	i := slices.IndexFunc(s.last, func(o *segment) bool { return o.path == path })
	if i >= 0 && s.last[i].size == size {
		return s.last[i], nil
	}
	s.reads++
	seg, err := read(ctx, fsys, dir, base, math.MaxUint64, false)
	if err != nil {
		return nil, err
	}
	if i >= 0 {
		s.last = slices.Delete(s.last, i, i+1)
	}
	s.last = slices.Insert(s.last, 0, seg)
	s.last = s.last[:min(len(s.last), remembered)]
	return seg, nil
}
