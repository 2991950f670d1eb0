package commitlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// A segment file is named by its first offset, in 20 digits. It begins with a
// header, in little-endian order, and its batches follow without gaps:
//
//	 0                       8           12          16
//	+-----------------------+-----------+-----------+
//	| "BRKDLOG" 1           | CRC-32C   | 0         |
//	+-----------------------+-----------+-----------+
//	| base offset           | base position         |
//	+-----------------------+-----------------------+
//	| zeros to 64                                   |
//	+-----------------------------------------------+
const (
	segmentMagic      = "BRKDLOG\x01"
	segmentHeadBytes  = 64
	segmentSuffix     = ".log"
	indexSuffix       = ".index"
	segmentNameDigits = 20
)

// SegmentName returns the name of the segment file that begins with an offset.
func SegmentName(base seq.Offset) string {
	return fmt.Sprintf("%0*d%s", segmentNameDigits, uint64(base), segmentSuffix)
}

// ParseSegmentName returns the first offset of a segment by the name of its file.
func ParseSegmentName(name string) (seq.Offset, bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(digits) != segmentNameDigits {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return seq.Offset(n), err == nil && seq.Offset(n) <= seq.MaxOffset
}

// EncodeSegmentHead returns the header of a segment file, whose batches follow it.
func EncodeSegmentHead(base seq.Offset, basePos int64) []byte {
	p := make([]byte, segmentHeadBytes)
	copy(p, segmentMagic)
	binary.LittleEndian.PutUint64(p[16:], uint64(base))
	binary.LittleEndian.PutUint64(p[24:], uint64(basePos)) //nolint:gosec // a position is not negative
	binary.LittleEndian.PutUint32(p[8:], checksum(p[12:]))
	return p
}

// DecodeSegmentHead checks a header, and returns the first offset of its segment and where that is
// in the log, in bytes.
func DecodeSegmentHead(p []byte) (base seq.Offset, basePos int64, err error) {
	le := binary.LittleEndian
	if len(p) < segmentHeadBytes || string(p[:8]) != segmentMagic || le.Uint32(p[8:]) != checksum(p[12:segmentHeadBytes]) {
		return 0, 0, errBadFile
	}
	return seq.Offset(le.Uint64(p[16:])), int64(le.Uint64(p[24:])), nil //nolint:gosec // under a checksum
}

// segment is one file of the log. What readers share is atomic or under mu.
type segment struct {
	path    string
	base    seq.Offset
	basePos int64

	size    atomic.Int64  // where its batches end in the file
	end     atomic.Uint64 // one past its last offset
	maxTime atomic.Int64

	mu     sync.Mutex // guards all below
	pinned bool       // the segment is incomplete: its index is nowhere but in memory
	index  []indexEntry
	damage []Damage
	grown  time.Time // when a batch was added last, by this process; zero: not yet
	file   vfs.File  // shared by those who read, nil while nobody does
	refs   int
}

func newSegment(path string, c *contents) *segment {
	s := &segment{path: path, base: c.base, basePos: c.basePos, damage: c.damage}
	s.size.Store(c.size)
	s.end.Store(uint64(c.end))
	s.maxTime.Store(c.maxTime)
	return s
}

func (s *segment) endOffset() seq.Offset { return seq.Offset(s.end.Load()) }

// position turns a place in the file into one in the virtual log.
func (s *segment) position(fileOff int64) int64 { return s.basePos + fileOff - segmentHeadBytes }

func (s *segment) endPosition() int64 { return s.position(s.size.Load()) }

func (s *segment) indexPath() string { return strings.TrimSuffix(s.path, segmentSuffix) + indexSuffix }

// acquire opens the file for reading, or shares it with those who have. It
// answers fs.ErrNotExist once the segment has been removed.
func (s *segment) acquire(fsys vfs.FS) (vfs.File, error) {
	if f := s.share(nil); f != nil {
		return f, nil
	}
	f, err := fsys.Open(s.path)
	if err != nil {
		return nil, err
	}
	shared := s.share(f)
	if shared != f {
		_ = f.Close()
	}
	return shared, nil
}

// share counts one more reader of the open file, and takes opened if there is none.
func (s *segment) share(opened vfs.File) vfs.File {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		s.file = opened
	}
	if s.file != nil {
		s.refs++
	}
	return s.file
}

func (s *segment) release() {
	s.mu.Lock()
	s.refs--
	var f vfs.File
	if s.refs == 0 {
		f, s.file = s.file, nil
		if !s.pinned {
			s.index = nil
		}
	}
	s.mu.Unlock()
	if f != nil {
		_ = f.Close()
	}
}

// pin keeps an index in memory until the segment is complete.
func (s *segment) pin(index []indexEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index, s.pinned = index, true
}

func (s *segment) isPinned() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pinned
}

// unpin lets the index go with the last reader.
func (s *segment) unpin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pinned = false
	if s.refs == 0 {
		s.index = nil
	}
}

// addBatch adds a batch that was written at a position of the file.
func (s *segment) addBatch(b Batch, fileOff, indexBytes int64) {
	s.mu.Lock()
	if n := len(s.index); n == 0 || fileOff-s.index[n-1].position >= indexBytes {
		s.index = append(s.index, indexEntry{b.First(), fileOff, s.maxTime.Load()})
	}
	s.grown = time.Now()
	s.mu.Unlock()
	s.maxTime.Store(max(s.maxTime.Load(), b.Timestamp()))
	s.size.Store(fileOff + int64(b.Size()))
	s.end.Store(uint64(b.End()))
}

// entries returns the index. It must not be changed. The caller has acquired the
// segment. Where the index file is gone or damaged it is recreated in memory.
func (s *segment) entries(fsys vfs.FS, indexBytes int64) ([]indexEntry, error) {
	s.mu.Lock()
	index := s.index
	s.mu.Unlock()
	if index != nil || s.size.Load() == segmentHeadBytes {
		return index, nil
	}
	c, err := s.loadIndex(fsys)
	if err != nil {
		c, err = s.rescan(fsys, indexBytes)
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.index == nil {
		s.index = c.entries
	}
	return s.index, nil
}

// loadIndex reads the index file and checks that it speaks of this segment.
func (s *segment) loadIndex(fsys vfs.FS) (*contents, error) {
	p, err := vfs.ReadFile(fsys, s.indexPath(), maxIndexFile)
	if err != nil {
		return nil, err
	}
	c, err := decodeIndex(p, s.path)
	if err != nil {
		return nil, err
	}
	if c.base != s.base || c.basePos != s.basePos || c.size != s.size.Load() || c.end != s.endOffset() {
		return nil, errBadFile
	}
	return c, nil
}

// lost returns the known damage that contains off.
func (s *segment) lost(off seq.Offset) (Damage, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.damage {
		if off >= d.From && off < d.Next {
			return d, true
		}
	}
	return Damage{}, false
}

// addDamage remembers damage that a reader has found.
func (s *segment) addDamage(d Damage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range s.damage {
		if known.From == d.From {
			return
		}
	}
	s.damage = append(s.damage[:len(s.damage):len(s.damage)], d)
}

// remove deletes the files of a segment; the index first, so that none is left
// that speaks of a file of the same name made later.
func (s *segment) remove(fsys vfs.FS) error {
	for _, path := range []string{s.indexPath(), s.path} {
		if err := fsys.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func segmentPath(dir string, base seq.Offset) string { return filepath.Join(dir, SegmentName(base)) }
