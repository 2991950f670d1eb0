package idfile

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/vfs"
)

const (
	// prefix begins the names of the files; their number follows.
	prefix = "ids."
	// fileBytes is the size from which on a file is not appended to.
	fileBytes = 2 << 20
	// DefaultMost is the maximum size of the files of a partition, in bytes.
	DefaultMost = 64 << 20
	// longest is the maximum size of a file.
	longest = fileBytes + maxBlock
)

// Store are the files of one partition. Its methods are safe for concurrent use.
type Store struct {
	fs   vfs.FS
	dir  string
	most int64

	mu      sync.Mutex // guards what follows, and the files
	files   []file     // oldest first
	dropped uint64     // files that were dropped because there were too many bytes
}

// file is a file of ids.
type file struct {
	number  uint64
	bytes   int64
	mine    bool      // this process has created it
	touched time.Time // when it was last appended to, or found
}

// Open returns the store of a directory with the given names, whose files hold up to most bytes; 0: DefaultMost. now is
// the age of existing files: how old they really are is not known.
func Open(fsys vfs.FS, dir string, names []string, most int64, now time.Time) (*Store, error) {
	if most == 0 {
		most = DefaultMost
	}
	s := &Store{fs: fsys, dir: dir, most: most}
	for _, name := range names { // sorted; the numbers have a fixed width
		digits, ok := strings.CutPrefix(name, prefix)
		if !ok || len(digits) != digitsOf {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 64)
		if err != nil {
			continue // a temporary file
		}
		info, err := fsys.Stat(s.path(n))
		if err != nil {
			return nil, fmt.Errorf("open dedup ids: %w", err)
		}
		s.files = append(s.files, file{number: n, bytes: info.Size(), touched: now})
	}
	return s, nil
}

// digitsOf is the number of digits of a file's number.
const digitsOf = 20

func (s *Store) path(n uint64) string {
	return filepath.Join(s.dir, fmt.Sprintf("%s%0*d", prefix, digitsOf, n))
}

// Append stores groups, in the order of the log. They are on disk when it returns; after an error, some of them may be.
func (s *Store) Append(groups []Group, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	block := newBlock()
	for i := range groups {
		for rest := groups[i]; len(rest.IDs) > 0; {
			part := rest
			part.IDs = rest.IDs[:min(maxIDs, len(rest.IDs))]
			rest.IDs = rest.IDs[len(part.IDs):]
			if block = appendGroup(block, &part); len(block) >= blockBytes {
				if err := s.writeLocked(finish(block), now); err != nil {
					return err
				}
				block = block[:blockHead]
			}
		}
	}
	if len(block) == blockHead {
		return nil
	}
	return s.writeLocked(finish(block), now)
}

// writeLocked appends a block to the newest file, or to a new one.
func (s *Store) writeLocked(block []byte, now time.Time) error {
	if n := len(s.files); n == 0 || !s.files[n-1].mine || s.files[n-1].bytes >= fileBytes {
		return s.createLocked(append([]byte(version), block...), now)
	}
	newest := &s.files[len(s.files)-1]
	f, err := s.fs.OpenReadWrite(s.path(newest.number))
	if err != nil {
		return fmt.Errorf("store dedup ids: %w", err)
	}
	_, err = f.WriteAt(block, newest.bytes)
	if err == nil {
		err = f.SyncData()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		newest.mine = false // its end is not known
		return fmt.Errorf("store dedup ids: %w", err)
	}
	newest.bytes, newest.touched = newest.bytes+int64(len(block)), now
	return s.boundLocked()
}

// createLocked creates the next file.
func (s *Store) createLocked(content []byte, now time.Time) error {
	next := uint64(1)
	if n := len(s.files); n > 0 {
		next = s.files[n-1].number + 1
	}
	if err := vfs.WriteFileSynced(s.fs, s.path(next), content); err != nil {
		return fmt.Errorf("store dedup ids: %w", err)
	}
	s.files = append(s.files, file{number: next, bytes: int64(len(content)), mine: true, touched: now})
	return s.boundLocked()
}

// boundLocked drops the oldest files while there are too many bytes, except for the newest.
func (s *Store) boundLocked() error {
	total := int64(0)
	for i := range s.files {
		total += s.files[i].bytes
	}
	for len(s.files) > 1 && total > s.most {
		total -= s.files[0].bytes
		if err := s.dropLocked(); err != nil {
			return err
		}
		s.dropped++
	}
	return nil
}

// dropLocked removes the oldest file.
func (s *Store) dropLocked() error {
	if err := s.fs.Remove(s.path(s.files[0].number)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove dedup ids: %w", err)
	}
	s.files = s.files[1:]
	return nil
}

// Expire drops the files to which nothing was appended for a time. 0 drops all.
func (s *Store) Expire(after time.Duration, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.files) > 0 && now.Sub(s.files[0].touched) >= after {
		if err := s.dropLocked(); err != nil {
			return err
		}
	}
	return nil
}

// Bytes returns the size of all files, and how many were dropped because there were too many bytes.
func (s *Store) Bytes() (bytes int64, dropped uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.files {
		bytes += s.files[i].bytes
	}
	return bytes, s.dropped
}

// Each calls f with the stored groups, in order, until it returns false. An error that is marked as corrupt is about
// blocks that could not be read; f has received all others.
func (s *Store) Each(f func(*Group) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var damage []error
	for i := range s.files {
		content, err := s.readLocked(i)
		if err != nil {
			return err
		}
		more := true
		err = eachGroup(content, func(g *Group) bool {
			more = f(g)
			return more
		})
		if err != nil {
			damage = append(damage, fmt.Errorf("%s: %w", s.path(s.files[i].number), err))
		}
		if !more {
			break
		}
	}
	return errors.Join(damage...)
}

// readLocked returns the content of a file, as far as it was written successfully.
func (s *Store) readLocked(i int) ([]byte, error) {
	content, err := vfs.ReadFile(s.fs, s.path(s.files[i].number), longest)
	if err != nil {
		return nil, fmt.Errorf("read dedup ids: %w", err)
	}
	return content[:min(int64(len(content)), s.files[i].bytes)], nil
}

// Files returns the numbers of the files, oldest first, for Read.
func (s *Store) Files() (numbers []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.files {
		numbers = append(numbers, s.files[i].number)
	}
	return numbers
}

// Read returns the content of a file, for Replace at another replica; nil if it was dropped.
func (s *Store) Read(number uint64) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.files {
		if s.files[i].number == number {
			return s.readLocked(i)
		}
	}
	return nil, nil
}

// Replace stores a file of another replica, the first of which replaces all files. It may be empty.
func (s *Store) Replace(first bool, content []byte, now time.Time) error {
	if len(content) > longest {
		return fmt.Errorf("%w: a file of %d bytes", errDamaged, len(content))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for first && len(s.files) > 0 {
		if err := s.dropLocked(); err != nil {
			return err
		}
	}
	if len(content) == 0 {
		return nil
	}
	if err := s.createLocked(content, now); err != nil {
		return err
	}
	if n := len(s.files); n > 0 {
		s.files[n-1].mine = false // its end may be torn
	}
	return nil
}
