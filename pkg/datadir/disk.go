package datadir

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// The disk file has two slots, which are written in turn, in place: a full disk has room for a start, and a write that
// was cut short leaves the other slot.
const (
	diskSlot    = 16 << 10
	maxDiskFile = 2 * diskSlot
)

// maxPending is the maximum number of starts in the disk file that may have been registered. Of more, the ones
// in the middle are forgotten: the node has started that often without learning that it was registered.
const maxPending = 100

// diskFile is the content of the disk file.
type diskFile struct {
	meta.Disk
	// Follows are earlier starts: the last one that is known to be registered, and those after it.
	Follows []string `json:"follows,omitempty"`
	// Marked is the last start that was outdated and after which every replica in the directory was marked.
	Marked string `json:"marked,omitempty"`
	// Written counts the writes of the file. The slot with the larger number is the newer one.
	Written uint64 `json:"written"`
}

// encode returns the content of a slot: JSON, a space, and its CRC-32C in hexadecimal. Zeros follow it.
func (f *diskFile) encode() ([]byte, error) {
	text, err := json.Marshal(f)
	return fmt.Appendf(text, " %08x\n", crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli))), err
}

// decodeDiskFile returns the newer one of the slots. ok is false if both are damaged.
func decodeDiskFile(text []byte) (f diskFile, ok bool) {
	for slot := range slices.Chunk(text, diskSlot) {
		if one, valid := decodeDiskSlot(bytes.TrimRight(slot, "\x00")); valid && (!ok || one.Written > f.Written) {
			f, ok = one, true
		}
	}
	return f, ok
}

// decodeDiskSlot returns ok=false for a damaged slot.
func decodeDiskSlot(text []byte) (f diskFile, ok bool) {
	end := bytes.LastIndexByte(text, ' ')
	if end < 0 || json.Unmarshal(text[:end], &f) != nil {
		return diskFile{}, false
	}
	again, err := f.encode()
	return f, err == nil && f.ID != "" && f.Start != "" && bytes.Equal(text, again)
}

// Start is one start of a node with its data directory. It is not safe for concurrent use.
type Start struct {
	dir  Dir
	file diskFile
}

// disk is the file with the identity of the directory.
func (d Dir) disk() string { return filepath.Join(d.Root, "disk") }

// NewStart begins a start of the node, which is durable when it returns. A directory without an identity gets
// one. That of a damaged file is another one: damaged is true then.
func (d Dir) NewStart() (s *Start, damaged bool, err error) {
	s = &Start{dir: d}
	text, err := vfs.ReadFile(d.FS, d.disk(), maxDiskFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil && !errors.Is(err, vfs.ErrTooLong):
		return nil, false, fmt.Errorf("read identity of the data directory: %w", err)
	default:
		var ok bool
		s.file, ok = decodeDiskFile(text)
		damaged = err != nil || !ok
	}
	f := &s.file
	if damaged || f.ID == "" {
		*f = diskFile{Disk: meta.Disk{ID: rand.Text(), Starts: 1}}
	} else {
		if len(f.Follows) == 0 {
			f.Starts++ // the last one is registered
		}
		f.Follows = append(f.Follows, f.Start)
		if over := len(f.Follows) - maxPending; over > 0 {
			f.Follows = append(f.Follows[:1:1], f.Follows[1+over:]...)
		}
	}
	f.Start = rand.Text()
	return s, damaged, s.write()
}

func (s *Start) write() error {
	s.file.Written++
	text, err := s.file.encode()
	if err == nil {
		err = s.dir.writeDiskSlot(append(text, make([]byte, max(0, diskSlot-len(text)))...), int64(s.file.Written%2)*diskSlot)
	}
	if err != nil {
		return fmt.Errorf("write identity of the data directory: %w", err)
	}
	return nil
}

// writeDiskSlot writes a slot of the disk file, durably. It creates a file that is missing or has another size.
func (d Dir) writeDiskSlot(slot []byte, at int64) error {
	f, err := d.FS.OpenReadWrite(d.disk())
	size := int64(0)
	if err == nil {
		size, err = f.Size()
	}
	if errors.Is(err, fs.ErrNotExist) || err == nil && size != maxDiskFile {
		if f != nil {
			err = f.Close()
		}
		whole := make([]byte, maxDiskFile)
		copy(whole[at:], slot)
		return errors.Join(ignoreMissing(err), vfs.WriteFileSynced(d.FS, d.disk(), whole))
	}
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(slot, at); err == nil {
		err = f.SyncData()
	}
	return errors.Join(err, f.Close())
}

// ignoreMissing returns nil for the error of a file that does not exist.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Register sets what the registration of the start says about the disk.
func (s *Start) Register(c *meta.NodeStarted) {
	c.Node.Disk, c.Follows, c.Marked = s.file.Disk, s.file.Follows, s.file.Marked
}

// Disk returns the disk as of this start, and the earlier starts that may have been registered last.
func (s *Start) Disk() (disk meta.Disk, follows []string) { return s.file.Disk, s.file.Follows }

// Registered records that the start is registered, durably. n is the node as the metadata has it. If it is Outdated,
// every replica in the directory is marked first. Registered returns the number of these.
func (s *Start) Registered(n *meta.Node) (replicas int, err error) {
	s.file.Starts = n.Disk.Starts
	if n.Outdated {
		if replicas, err = s.dir.markOutdated(); err != nil {
			return replicas, fmt.Errorf("mark replicas of an outdated data directory: %w", err)
		}
		s.file.Marked = s.file.Start
	}
	s.file.Follows = nil
	return replicas, s.write()
}

// markOutdated marks every replica as outdated, durably.
func (d Dir) markOutdated() (replicas int, err error) {
	err = d.eachReplica(func(replica string) error {
		replicas++
		return vfs.MarkSynced(d.FS, filepath.Join(replica, MarkOutdated))
	})
	return replicas, err
}
