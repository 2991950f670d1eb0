package commitlog

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog/segmenthead"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

const indexSuffix = ".index"

// segment is one file of the log. State shared with readers is atomic or under mu.
type segment struct {
	path    string
	base    seq.Offset
	basePos int64

	size    atomic.Int64  // where its batches end in the file
	end     atomic.Uint64 // one past its last offset
	maxTime atomic.Int64

	mu     sync.Mutex // guards all below
	pinned bool       // the segment is incomplete: its index is only in memory
	index  []indexEntry
	damage []Damage
	grown  time.Time // when this process last added a batch; zero: not yet
	file   vfs.File  // shared by readers, nil if there are none
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

// position converts an offset in the file to a position in the virtual log.
func (s *segment) position(fileOff int64) int64 { return s.basePos + fileOff - segmenthead.Bytes }

func (s *segment) endPosition() int64 { return s.position(s.size.Load()) }

func (s *segment) indexPath() string {
	return strings.TrimSuffix(s.path, segmenthead.Suffix) + indexSuffix
}

// acquire opens the file for reading, or shares the open one. It returns fs.ErrNotExist once the
// segment has been removed.
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

// share counts one more reader of the open file, and uses opened if there is none.
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

// unpin lets the index be released with the last reader.
func (s *segment) unpin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pinned = false
	if s.refs == 0 {
		s.index = nil
	}
}

// addBatch adds a batch written at a position of the file.
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

// entries returns the index. It must not be changed. The caller has acquired the segment. If the
// index file is missing or damaged, it is rebuilt in memory.
func (s *segment) entries(fsys vfs.FS, indexBytes int64) ([]indexEntry, error) {
	s.mu.Lock()
	index := s.index
	s.mu.Unlock()
	if index != nil || s.size.Load() == segmenthead.Bytes {
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

// loadIndex reads the index file and checks that it describes this segment.
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

// addDamage records damage that a reader has found.
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

// remove deletes the files of a segment; the index first, so that it cannot describe a later file
// with the same name.
func (s *segment) remove(fsys vfs.FS) error {
	for _, path := range []string{s.indexPath(), s.path} {
		if err := fsys.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func segmentPath(dir string, base seq.Offset) string {
	return filepath.Join(dir, segmenthead.Name(base))
}
