package mend

import (
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// pieceBytes is about how much one answer brings.
const pieceBytes = 512 << 10

// Wanted says which batches of a damaged range are wanted of another copy of the log, and what proves
// that it holds what was lost.
type Wanted struct {
	From seq.Offset `json:"from"` // where the first batch begins
	At   int        `json:"at"`   // its first byte that is wanted
	Next seq.Offset `json:"next"` // where the range ends
	// Behind is where the damage ends. The batch that begins there has this epoch and checksum; or,
	// with Last, none is there: then what is below must be known as committed.
	Behind seq.Offset `json:"behind"`
	Last   bool       `json:"last,omitempty"`
	Epoch  seq.Epoch  `json:"epoch,omitempty"`
	Sum    uint32     `json:"sum,omitempty"`
}

// Answer is some of the bytes that are wanted; none: this copy does not hold them.
type Answer struct {
	Bytes []byte `json:"bytes,omitempty"`
	Whole bool   `json:"whole,omitempty"` // they end where a batch ends
}

// Copy is a copy of a log.
type Copy struct {
	// Batch returns the batch that begins at an offset; nothing: none does that can be read.
	Batch     func(first seq.Offset) []byte
	committed func() seq.Offset
}

// InLog returns the copy that is an open log.
func InLog(l *commitlog.Log) Copy {
	return Copy{func(first seq.Offset) []byte {
		raw, err := l.ReadRaw(first, 1, nil)
		if err != nil {
			return nil
		}
		if b, err := commitlog.Decode(raw); err != nil || b.First() != first {
			return nil
		}
		return raw
	}, l.CommittedEnd}
}

// InDir returns the copy in a directory that nobody has open.
func InDir(fsys vfs.FS, dir string) Copy {
	return Copy{func(first seq.Offset) []byte {
		raw, err := Batch(fsys, dir, first)
		if err != nil {
			return nil
		}
		return raw
	}, func() seq.Offset {
		x, err := commitlog.Inspect(fsys, dir)
		if err != nil {
			return 0
		}
		return x.CommittedEnd
	}}
}

// holds reports whether the copy is the same as another one below the end of what that one lost.
func (c Copy) holds(w Wanted) bool {
	if w.Last {
		return c.committed() >= w.Behind
	}
	b, err := commitlog.Decode(c.Batch(w.Behind))
	return err == nil && b.Epoch() == w.Epoch && b.Checksum() == w.Sum
}

// Answer returns whole batches of what is wanted, or a part of a large one.
func (c Copy) Answer(w Wanted) (a Answer) {
	if !c.holds(w) {
		return a
	}
	for w.From < w.Next {
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
