package commitlog

import (
	"errors"
	"fmt"
	"io"

	"github.com/brokerd/brokerd/pkg/commitlog/segmenthead"
	"github.com/brokerd/brokerd/pkg/vfs"
)

const (
	scanBytes = 1 << 20
	// resyncBudget bounds the bytes that are checksummed in the search for intact data after
	// damage, as a multiple of the file's size: the damaged range may have been made to look like
	// batches.
	resyncBudget = 4
)

// errNoBatch reports an all-zero header, or the end of the file, where a batch could be.
var errNoBatch = errors.New("no batch")

// scanner reads a segment file from front to back, in large pieces.
type scanner struct {
	file  vfs.File
	size  int64 // of the file
	chunk int64 // read size
	buf   []byte
	off   int64             // of buf in the file
	read  int64             // bytes read so far
	pay   func(n int) error // for reads larger than a chunk; nil: they are free
}

// openScanner opens a segment file.
func openScanner(fsys vfs.FS, path string) (*scanner, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &scanner{file: f, size: size, chunk: scanBytes}, nil
}

func (s *scanner) close() { _ = s.file.Close() }

// window returns n bytes at pos, or fewer at the end of the file. They are valid until the next
// call.
func (s *scanner) window(pos, n int64) ([]byte, error) {
	n = max(0, min(n, s.size-pos))
	if pos >= s.off && pos+n <= s.off+int64(len(s.buf)) {
		return s.buf[pos-s.off:][:n], nil
	}
	want := min(max(n, s.chunk), s.size-pos)
	if want <= 0 {
		return nil, nil
	}
	if want > s.chunk && s.pay != nil {
		if err := s.pay(int(want)); err != nil {
			return nil, err
		}
	}
	if int64(cap(s.buf)) < want {
		s.buf = make([]byte, want)
	}
	s.buf, s.off = s.buf[:want], pos
	if err := vfs.ReadFull(s.file, s.buf, pos); err != nil {
		s.buf = s.buf[:0]
		if errors.Is(err, io.ErrUnexpectedEOF) {
			s.size = pos
			return nil, nil
		}
		return nil, err
	}
	s.read += want
	return s.buf[:n], nil
}

// batch returns the batch at pos, which is valid until the next call, or errNoBatch or
// ErrInvalidBatch. Any other error is the disk's.
func (s *scanner) batch(pos int64) (Batch, error) {
	head, err := s.window(pos, headerBytes)
	if err != nil {
		return Batch{}, err
	}
	if isZero(head) {
		return Batch{}, errNoBatch
	}
	size, err := BatchSize(head)
	if err != nil {
		return Batch{}, err
	}
	if pos+int64(size) > s.size {
		return Batch{}, fmt.Errorf("%w: %d bytes at %d extend past the end of the file", ErrInvalidBatch, size, pos)
	}
	raw, err := s.window(pos, int64(size))
	if err != nil {
		return Batch{}, err
	}
	if len(raw) < size {
		return Batch{}, fmt.Errorf("%w: unexpected end of file", ErrInvalidBatch)
	}
	return decode(raw)
}

// resync searches for the first accepted intact batch after damage at pos.
func (s *scanner) resync(pos int64, accept func(Batch) bool) (int64, bool, error) {
	// If only the payload is damaged, the header still locates the next batch: that is
	// better evidence than anything inside the damage.
	if head, err := s.window(pos, headerBytes); err == nil {
		if size, err := BatchSize(head); err == nil {
			next := pos + int64(size)
			if b, err := s.batch(next); err == nil && accept(b) {
				return next, true, nil
			}
		}
	}
	budget := resyncBudget * s.size
	for ; pos+headerBytes <= s.size; pos += alignment {
		head, err := s.window(pos, headerBytes)
		if err != nil {
			return 0, false, err
		}
		size, err := BatchSize(head)
		if err != nil || pos+int64(size) > s.size {
			continue
		}
		if budget -= int64(size); budget < 0 {
			return 0, false, nil
		}
		b, err := s.batch(pos)
		if err == nil && accept(b) {
			return pos, true, nil
		}
		if err != nil && !errors.Is(err, ErrInvalidBatch) {
			return 0, false, err
		}
	}
	return 0, false, nil
}

// rescan reads all of a complete segment, to rebuild its index.
func (s *segment) rescan(fsys vfs.FS, indexBytes int64) (*contents, error) {
	scan, err := openScanner(fsys, s.path)
	if err != nil {
		return nil, err
	}
	defer scan.close()
	scan.size = min(scan.size, s.size.Load())
	c := &contents{base: s.base, basePos: s.basePos, end: s.base, size: segmenthead.Bytes, maxTime: noTime}
	for pos := int64(segmenthead.Bytes); pos < scan.size; {
		b, err := scan.batch(pos)
		if err == nil && b.First() >= c.end {
			c.add(b, pos, indexBytes)
			pos += int64(b.Size())
			continue
		}
		if err != nil && !errors.Is(err, errNoBatch) && !errors.Is(err, ErrInvalidBatch) {
			return nil, err
		}
		next, found, err := scan.resync(pos, func(b Batch) bool { return b.First() > c.end && b.End() <= s.endOffset() })
		if err != nil || !found {
			return c, err
		}
		pos = next
	}
	return c, nil
}

// zeroFrom reports whether the file is zero from pos on.
func (s *scanner) zeroFrom(pos int64) (bool, error) {
	for pos < s.size {
		p, err := s.window(pos, scanBytes)
		if err != nil || len(p) == 0 {
			return true, err
		}
		if !isZero(p) {
			return false, nil
		}
		pos += int64(len(p))
	}
	return true, nil
}
