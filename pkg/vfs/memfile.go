package vfs

import (
	"io"
	"io/fs"
	"sync"
	"syscall"
)

// blockSize is the unit in which a file in memory is stored. sectorSize is the unit in which a
// power cut tears a block that was being written.
const (
	blockSize  = 4096
	sectorSize = 512
)

type block [blockSize]byte

// memData is the content of one file. A block that was never written is nil and reads as zero, so
// preallocation costs no memory. In a crashable file system, a block that has not changed since the
// last sync is never overwritten: a change replaces it, so that clones and the synced content share
// it.
type memData struct {
	track bool

	mu         sync.RWMutex // guards all below
	size       int64
	blocks     []*block
	syncedSize int64
	// dirty holds the synced content (nil: zero) of each block that has changed since the last
	// sync.
	dirty map[int64]*block
}

func (d *memData) length() int64 {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.size
}

// touchLocked keeps the old content of block i and replaces the block by a copy, before it is
// changed.
func (d *memData) touchLocked(i int64) {
	if !d.track {
		return
	}
	if _, ok := d.dirty[i]; ok {
		return
	}
	if d.dirty == nil {
		d.dirty = map[int64]*block{}
	}
	var old *block
	if i < int64(len(d.blocks)) {
		old = d.blocks[i]
		d.blocks[i] = old.copy()
	}
	d.dirty[i] = old
}

func (d *memData) growLocked(size int64) {
	d.size = max(d.size, size)
	if need := int((d.size + blockSize - 1) / blockSize); need > len(d.blocks) {
		d.blocks = append(d.blocks, make([]*block, need-len(d.blocks))...)
	}
}

func (d *memData) grow(size int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.growLocked(size)
}

func (d *memData) write(p []byte, off int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.growLocked(off + int64(len(p)))
	for len(p) > 0 {
		i, at := off/blockSize, off%blockSize
		d.touchLocked(i)
		if d.blocks[i] == nil {
			d.blocks[i] = new(block)
		}
		n := copy(d.blocks[i][at:], p)
		p, off = p[n:], off+int64(n)
	}
}

func (d *memData) read(p []byte, off int64) (int, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if off >= d.size {
		return 0, io.EOF
	}
	var err error
	if rest := d.size - off; int64(len(p)) > rest {
		p, err = p[:rest], io.EOF
	}
	total := len(p)
	for len(p) > 0 {
		i, at := off/blockSize, off%blockSize
		n := min(len(p), int(blockSize-at))
		if b := d.blocks[i]; b == nil {
			clear(p[:n])
		} else {
			copy(p[:n], b[at:])
		}
		p, off = p[n:], off+int64(n)
	}
	return total, err
}

func (d *memData) truncate(size int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if size >= d.size {
		d.growLocked(size)
		return
	}
	keep := (size + blockSize - 1) / blockSize
	for i := keep; i < int64(len(d.blocks)); i++ {
		d.touchLocked(i)
	}
	d.blocks = d.blocks[:keep:keep]
	if at := size % blockSize; at != 0 && d.blocks[keep-1] != nil {
		d.touchLocked(keep - 1)
		clear(d.blocks[keep-1][at:])
	}
	d.size = size
}

func (d *memData) sync() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.syncedSize, d.dirty = d.size, nil
}

// memFile is an open file.
type memFile struct {
	fs    *Mem
	data  *memData
	name  string
	write bool
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, pathError(OpRead, f.name, fs.ErrInvalid)
	}
	return f.data.read(p, off)
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	if !f.write {
		return 0, pathError(OpWrite, f.name, syscall.EBADF)
	}
	if off < 0 {
		return 0, pathError(OpWrite, f.name, fs.ErrInvalid)
	}
	f.data.write(p, off)
	f.fs.record(Op{Kind: OpWrite, Name: f.name, Off: off, Len: int64(len(p))})
	return len(p), nil
}

func (f *memFile) Close() error { return nil }

func (f *memFile) Size() (int64, error) { return f.data.length(), nil }

func (f *memFile) Truncate(size int64) error {
	if !f.write || size < 0 {
		return pathError(OpTruncate, f.name, fs.ErrInvalid)
	}
	f.data.truncate(size)
	f.fs.record(Op{Kind: OpTruncate, Name: f.name, Len: size})
	return nil
}

func (f *memFile) Preallocate(off, n int64) error {
	if !f.write || off < 0 || n <= 0 {
		return pathError(OpPreallocate, f.name, fs.ErrInvalid)
	}
	f.data.grow(off + n)
	f.fs.record(Op{Kind: OpPreallocate, Name: f.name, Off: off, Len: n})
	return nil
}

func (f *memFile) SyncData() error {
	f.data.sync()
	f.fs.record(Op{Kind: OpSyncData, Name: f.name})
	return nil
}

func (f *memFile) Sync() error {
	f.data.sync()
	f.fs.record(Op{Kind: OpSync, Name: f.name})
	return nil
}
