package vfs

import "sync"

// Watch is a file system around another one that knows which changing operations have not returned
// yet: a disk that hangs gives no error. Its methods are safe for concurrent use. Watching
// allocates nothing for a write or a sync.
type Watch struct {
	FS

	mu    sync.Mutex // guards the fields below
	last  int64      // the last number
	slots []underWay // as many as there were operations at once; kept for later operations
	free  []int      // free indexes of slots
}

// underWay is an operation that has not returned.
type underWay struct {
	number int64 // 0: none
	op     Op
}

var _ FS = (*Watch)(nil)

// NewWatch returns a Watch around inner.
func NewWatch(inner FS) *Watch { return &Watch{FS: inner} }

// Oldest returns the operation that has been in progress for longest, with its number, which no
// other operation gets. false: none is in progress. Syncs of a volume are left out: they also wait
// for what other programs write to it, while the disk responds.
//
// To find out how long an operation takes, count calls of Oldest that return it, and do not use the
// clock: to a process that was stopped, every operation looks old when it continues.
func (w *Watch) Oldest() (number int64, op Op, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, u := range w.slots {
		if u.number != 0 && u.op.Kind != OpSyncVolume && (!ok || u.number < number) {
			number, op, ok = u.number, u.op, true
		}
	}
	return number, op, ok
}

// during notes an operation while f runs.
func (w *Watch) during(op Op, f func() error) error {
	slot := w.begin(op)
	defer w.end(slot)
	return f()
}

// begin notes an operation and returns its index in slots.
func (w *Watch) begin(op Op) (slot int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last++
	u := underWay{number: w.last, op: op}
	if len(w.free) == 0 {
		w.slots = append(w.slots, u)
		return len(w.slots) - 1
	}
	slot = w.free[len(w.free)-1]
	w.free = w.free[:len(w.free)-1]
	w.slots[slot] = u
	return slot
}

func (w *Watch) end(slot int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slots[slot] = underWay{}
	w.free = append(w.free, slot)
}

func (w *Watch) open(kind OpKind, name string, open func(string) (File, error)) (File, error) {
	var file File
	err := w.during(Op{Kind: kind, Name: name}, func() (err error) {
		file, err = open(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &watchedFile{File: file, w: w, name: name}, nil
}

// Create implements FS.
func (w *Watch) Create(name string) (File, error) { return w.open(OpCreate, name, w.FS.Create) }

// OpenReadWrite implements FS.
func (w *Watch) OpenReadWrite(name string) (File, error) {
	return w.open(OpOpen, name, w.FS.OpenReadWrite)
}

// Rename implements FS.
func (w *Watch) Rename(oldName, newName string) error {
	return w.during(Op{Kind: OpRename, Name: newName}, func() error { return w.FS.Rename(oldName, newName) })
}

// MkdirAll implements FS.
func (w *Watch) MkdirAll(name string) error {
	return w.during(Op{Kind: OpMkdir, Name: name}, func() error { return w.FS.MkdirAll(name) })
}

// SyncDir implements FS.
func (w *Watch) SyncDir(name string) error {
	return w.during(Op{Kind: OpSyncDir, Name: name}, func() error { return w.FS.SyncDir(name) })
}

// OpenVolume implements the function OpenVolume.
func (w *Watch) OpenVolume(name string) (Volume, error) {
	return WrapVolume(w.FS, name, func(sync func() error) error {
		return w.during(Op{Kind: OpSyncVolume, Name: name}, sync)
	})
}

type watchedFile struct {
	File
	w    *Watch
	name string
}

func (f *watchedFile) during(op Op, do func() error) error {
	op.Name = f.name
	return f.w.during(op, do)
}

func (f *watchedFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.during(Op{Kind: OpWrite, Off: off, Len: int64(len(p))}, func() (err error) {
		n, err = f.File.WriteAt(p, off)
		return err
	})
	return n, err
}

func (f *watchedFile) Truncate(size int64) error {
	return f.during(Op{Kind: OpTruncate, Len: size}, func() error { return f.File.Truncate(size) })
}

func (f *watchedFile) Preallocate(off, n int64) error {
	return f.during(Op{Kind: OpPreallocate, Off: off, Len: n}, func() error { return f.File.Preallocate(off, n) })
}

func (f *watchedFile) SyncData() error {
	return f.during(Op{Kind: OpSyncData}, f.File.SyncData)
}

// SyncAside is SyncData: see the function SyncAside.
func (f *watchedFile) SyncAside() error {
	return f.during(Op{Kind: OpSyncData}, func() error { return SyncAside(f.File) })
}

func (f *watchedFile) Sync() error {
	return f.during(Op{Kind: OpSync}, f.File.Sync)
}
