package repair

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/commitlog/segmenthead"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// read reads the intact batches of a segment file whose offsets end at a limit. A missing file has
// none. With head it reads only the header. It ends when ctx does.
func read(ctx context.Context, fsys vfs.FS, dir string, base, limit seq.Offset, head bool) (*segment, error) {
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
	s.size = size
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
	return s, s.collect(ctx, &w, limit)
}

// collect finds the intact batches of a segment.
func (s *segment) collect(ctx context.Context, w *window, limit seq.Offset) error {
	next, epoch, budget := s.base, seq.Epoch(0), searchBudget*w.size
	for at := int64(headBytes); at < w.size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		raw, err := w.batch(at)
		if err != nil {
			return err
		}
		if budget -= int64(len(raw)); budget < 0 { // what is behind may be intact
			return fmt.Errorf("%w: too many byte sequences in %s look like batches and are not", ErrNoFit, s.path)
		}
		b, err := commitlog.Decode(raw)
		switch {
		case err == nil && b.First() >= next && b.End() <= limit && b.Epoch() >= epoch:
			s.batches = append(s.batches, place{at: at, size: b.Size(), first: b.First(), end: b.End(), epoch: b.Epoch()})
			next, epoch = b.End(), b.Epoch()
			at += int64(b.Size())
		case len(raw) > 0 && w.intact(at+int64(len(raw)), next, limit):
			at += int64(len(raw)) // only the content of the batch is damaged
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

// at returns n bytes at a position, or fewer at the end of the file. They are valid until the next
// call.
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

// batch returns the bytes of the batch at a position according to its header; empty if there is
// no header.
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
