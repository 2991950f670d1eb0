package vfs

import (
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Mem is a file system in memory. A plain one (NewMem) is for data that may be lost with the
// process. A crashable one (NewCrashable) also knows what a power cut could leave of it: see
// CrashClone. Many goroutines may call its methods.
type Mem struct {
	track   bool
	observe func(Op)

	mu    sync.Mutex // guards root (the tree and what its directories remember), locks and trace
	root  *memNode
	locks map[string]bool
	trace []Op
}

var _ FS = (*Mem)(nil)

// memNode is a directory, or a file if it has one.
type memNode struct {
	file     *memData
	children map[string]*memNode
	// For a directory of a crashable Mem: the names that survive a power cut for certain, and the
	// changes since.
	synced  map[string]*memNode
	pending []dirChange
}

// dirChange is one change to a directory: it adds a name, removes a name, or does both in one step.
type dirChange struct {
	remove string
	add    string
	node   *memNode
}

// NewMem returns an empty file system in memory.
func NewMem() *Mem { return &Mem{root: newDir(), locks: map[string]bool{}} }

// NewCrashable returns an empty file system in memory that records its operations, and that can be
// cloned as a power cut could leave it.
func NewCrashable() *Mem {
	m := NewMem()
	m.track = true
	return m
}

// Observe makes a crashable Mem call fn after each operation that it records, in the goroutine that
// did the operation. Call it before the first operation.
func (m *Mem) Observe(fn func(Op)) { m.observe = fn }

// Trace returns the operations that a crashable Mem has recorded so far.
func (m *Mem) Trace() []Op {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.trace)
}

func newDir() *memNode { return &memNode{children: map[string]*memNode{}} }

func (m *Mem) record(op Op) {
	if !m.track {
		return
	}
	m.mu.Lock()
	m.trace = append(m.trace, op)
	m.mu.Unlock()
	if m.observe != nil {
		m.observe(op)
	}
}

func split(name string) []string {
	name = strings.Trim(filepath.ToSlash(filepath.Clean(name)), "/")
	if name == "" || name == "." {
		return nil
	}
	return strings.Split(name, "/")
}

func pathError(op OpKind, name string, err error) error {
	return &fs.PathError{Op: string(op), Path: name, Err: err}
}

// findLocked returns the node of a path.
func (m *Mem) findLocked(name string) (*memNode, error) {
	n := m.root
	for _, part := range split(name) {
		if n.file != nil {
			return nil, syscall.ENOTDIR
		}
		next, ok := n.children[part]
		if !ok {
			return nil, fs.ErrNotExist
		}
		n = next
	}
	return n, nil
}

// parentLocked returns the directory that contains a path, and the path's last part.
func (m *Mem) parentLocked(name string) (*memNode, string, error) {
	parts := split(name)
	if len(parts) == 0 {
		return nil, "", fs.ErrInvalid
	}
	dir, err := m.findLocked(strings.Join(parts[:len(parts)-1], "/"))
	if err == nil && dir.file != nil {
		err = syscall.ENOTDIR
	}
	return dir, parts[len(parts)-1], err
}

func (m *Mem) changeLocked(dir *memNode, c dirChange) {
	if m.track {
		dir.pending = append(dir.pending, c)
	}
	c.apply(dir.children)
}

func (c dirChange) apply(names map[string]*memNode) {
	if c.remove != "" {
		delete(names, c.remove)
	}
	if c.add != "" {
		names[c.add] = c.node
	}
}

// Create implements FS.
func (m *Mem) Create(name string) (File, error) {
	node, err := m.create(name)
	if err != nil {
		return nil, pathError(OpCreate, name, err)
	}
	m.record(Op{Kind: OpCreate, Name: name})
	return &memFile{fs: m, data: node.file, name: name, write: true}, nil
}

func (m *Mem) create(name string) (*memNode, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parentLocked(name)
	if err != nil {
		return nil, err
	}
	if node, ok := dir.children[base]; ok {
		if node.file == nil {
			return nil, syscall.EISDIR
		}
		node.file.truncate(0)
		return node, nil
	}
	node := &memNode{file: &memData{track: m.track}}
	m.changeLocked(dir, dirChange{add: base, node: node})
	return node, nil
}

func (m *Mem) open(name string, write bool) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.findLocked(name)
	if err == nil && node.file == nil {
		err = syscall.EISDIR
	}
	if err != nil {
		return nil, pathError(OpOpen, name, err)
	}
	return &memFile{fs: m, data: node.file, name: name, write: write}, nil
}

// Open implements FS.
func (m *Mem) Open(name string) (File, error) { return m.open(name, false) }

// OpenReadWrite implements FS.
func (m *Mem) OpenReadWrite(name string) (File, error) { return m.open(name, true) }

// Remove implements FS.
func (m *Mem) Remove(name string) error { return m.remove(name, false) }

// RemoveAll implements FS.
func (m *Mem) RemoveAll(name string) error { return m.remove(name, true) }

func (m *Mem) remove(name string, all bool) error {
	m.mu.Lock()
	dir, base, err := m.parentLocked(name)
	if err == nil {
		node, ok := dir.children[base]
		switch {
		case !ok:
			err = fs.ErrNotExist
		case !all && len(node.children) > 0:
			err = syscall.ENOTEMPTY
		default:
			m.changeLocked(dir, dirChange{remove: base})
		}
	}
	m.mu.Unlock()
	if err != nil && all {
		return nil
	}
	if err != nil {
		return pathError(OpRemove, name, err)
	}
	m.record(Op{Kind: OpRemove, Name: name})
	return nil
}

// Rename implements FS.
func (m *Mem) Rename(oldName, newName string) error {
	if err := m.rename(oldName, newName); err != nil {
		return pathError(OpRename, oldName, err)
	}
	m.record(Op{Kind: OpRename, Name: newName})
	return nil
}

func (m *Mem) rename(oldName, newName string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	from, oldBase, err := m.parentLocked(oldName)
	if err != nil {
		return err
	}
	to, newBase, err := m.parentLocked(newName)
	if err != nil {
		return err
	}
	node, ok := from.children[oldBase]
	if !ok {
		return fs.ErrNotExist
	}
	if there, ok := to.children[newBase]; ok && len(there.children) > 0 {
		return syscall.ENOTEMPTY
	}
	if from == to && oldBase == newBase {
		return nil
	}
	if from == to {
		m.changeLocked(from, dirChange{remove: oldBase, add: newBase, node: node})
		return nil
	}
	m.changeLocked(to, dirChange{add: newBase, node: node})
	m.changeLocked(from, dirChange{remove: oldBase})
	return nil
}

// MkdirAll implements FS.
func (m *Mem) MkdirAll(name string) error {
	made, err := m.mkdirAll(name)
	if err != nil {
		return pathError(OpMkdir, name, err)
	}
	if made {
		m.record(Op{Kind: OpMkdir, Name: name})
	}
	return nil
}

func (m *Mem) mkdirAll(name string) (made bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.root
	for _, part := range split(name) {
		next, ok := n.children[part]
		if !ok {
			next, made = newDir(), true
			m.changeLocked(n, dirChange{add: part, node: next})
		}
		if next.file != nil {
			return made, syscall.ENOTDIR
		}
		n = next
	}
	return made, nil
}

// ReadDir implements FS.
func (m *Mem) ReadDir(name string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.findLocked(name)
	if err == nil && node.file != nil {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, pathError(OpReadDir, name, err)
	}
	return slices.Sorted(maps.Keys(node.children)), nil
}

// Stat implements FS. Modification times are not stored: they are zero.
func (m *Mem) Stat(name string) (fs.FileInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.findLocked(name)
	if err != nil {
		return nil, pathError(OpStat, name, err)
	}
	info := memInfo{name: filepath.Base(name), dir: node.file == nil}
	if node.file != nil {
		info.size = node.file.length()
	}
	return info, nil
}

// SyncDir implements FS.
func (m *Mem) SyncDir(name string) error {
	m.mu.Lock()
	node, err := m.findLocked(name)
	if err == nil && node.file != nil {
		err = syscall.ENOTDIR
	}
	if err == nil && m.track {
		node.synced, node.pending = maps.Clone(node.children), nil
	}
	m.mu.Unlock()
	if err != nil {
		return pathError(OpSyncDir, name, err)
	}
	m.record(Op{Kind: OpSyncDir, Name: name})
	return nil
}

// OpenVolume implements the function OpenVolume.
func (m *Mem) OpenVolume(name string) (Volume, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.findLocked(name); err != nil {
		return nil, pathError(OpOpen, name, err)
	}
	return &memVolume{m, name}, nil
}

// memVolume is all of a Mem.
type memVolume struct {
	m    *Mem
	name string
}

// Sync implements Volume.
func (v *memVolume) Sync() error {
	v.m.mu.Lock()
	if v.m.track {
		v.m.root.sync()
	}
	v.m.mu.Unlock()
	v.m.record(Op{Kind: OpSyncVolume, Name: v.name})
	return nil
}

// Close implements Volume.
func (v *memVolume) Close() error { return nil }

// sync makes a node and everything below it durable.
func (n *memNode) sync() {
	if n.file != nil {
		n.file.sync()
		return
	}
	n.synced, n.pending = maps.Clone(n.children), nil
	for _, child := range n.children {
		child.sync()
	}
}

// Lock implements FS.
func (m *Mem) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := strings.Join(split(name), "/")
	if m.locks[key] {
		return nil, pathError(OpLock, name, ErrLocked)
	}
	if _, _, err := m.parentLocked(name); err != nil {
		return nil, pathError(OpLock, name, err)
	}
	m.locks[key] = true
	return &memLock{fs: m, key: key}, nil
}

// memUsage is the size that a file system in memory reports: more than any test or ephemeral topic
// uses. The writers limit the memory.
const memUsage = 1 << 50

// Usage implements FS.
func (m *Mem) Usage(string) (Usage, error) { return Usage{Total: memUsage, Free: memUsage}, nil }

type memLock struct {
	fs   *Mem
	key  string
	once sync.Once
}

func (l *memLock) Close() error {
	l.once.Do(func() {
		l.fs.mu.Lock()
		defer l.fs.mu.Unlock()
		delete(l.fs.locks, l.key)
	})
	return nil
}

type memInfo struct {
	name string
	size int64
	dir  bool
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) ModTime() time.Time { return time.Time{} }
func (i memInfo) IsDir() bool        { return i.dir }
func (i memInfo) Sys() any           { return nil }
func (i memInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | dirMode
	}
	return fileMode
}
