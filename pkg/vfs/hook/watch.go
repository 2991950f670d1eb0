package hook

import (
	"sync"

	"github.com/brokerd/brokerd/pkg/vfs"
)

// Watch is a file system around another one that knows which changing operations have not returned
// yet: a disk that hangs gives no error. Its methods are safe for concurrent use. Watching
// allocates nothing for a write or a sync.
type Watch struct {
	*FS

	mu    sync.Mutex   // guards the fields below
	last  int64        // the last number
	slots []inProgress // as many as there were operations at once; kept for later operations
	free  []int        // free indexes of slots
}

// inProgress is an operation that has not returned.
type inProgress struct {
	number int64 // 0: none
	op     vfs.Op
}

var _ vfs.FS = (*Watch)(nil)

// NewWatch returns a Watch around inner.
func NewWatch(inner vfs.FS) *Watch {
	w := &Watch{}
	w.FS = New(inner, (*watching)(w), false)
	return w
}

// Oldest returns the operation that has been in progress for longest, with its number, which no
// other operation gets. false: none is in progress. Removals and syncs of a volume are left out.
//
// To find out how long an operation takes, count calls of Oldest that return it, and do not use the
// clock: to a process that was stopped, every operation looks old when it continues.
func (w *Watch) Oldest() (number int64, op vfs.Op, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, u := range w.slots {
		if u.number != 0 && (!ok || u.number < number) {
			number, op, ok = u.number, u.op, true
		}
	}
	return number, op, ok
}

// watching is the Hook of a Watch.
type watching Watch

// unwatched is the token of an operation that may take long on a disk that responds: a removal, and a
// sync of a volume, which also waits for what other programs write to it.
const unwatched = -1

// Begin implements Hook: it notes an operation and returns its index in slots.
func (w *watching) Begin(op vfs.Op, _ vfs.File) (slot int, err error) {
	if op.Kind == vfs.OpRemove || op.Kind == vfs.OpSyncVolume {
		return unwatched, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last++
	u := inProgress{number: w.last, op: op}
	if len(w.free) == 0 {
		w.slots = append(w.slots, u)
		return len(w.slots) - 1, nil
	}
	slot = w.free[len(w.free)-1]
	w.free = w.free[:len(w.free)-1]
	w.slots[slot] = u
	return slot, nil
}

// End implements Hook.
func (w *watching) End(slot int) {
	if slot == unwatched {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slots[slot] = inProgress{}
	w.free = append(w.free, slot)
}
