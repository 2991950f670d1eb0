package commitlog

import (
	"sort"
	"sync"

	"github.com/brokerd/brokerd/pkg/seq"
)

// tail holds the latest batches, so that readers close to the end never read the disk. The garbage
// collector frees a batch that has left the tail once no reader uses it.
type tail struct {
	limit  int
	shared *Tails

	mu      sync.RWMutex // guards batches, head and bytes
	batches []Batch      // contiguous, from head
	head    int
	bytes   int
}

// compactAt is how many dropped batches the slice may keep at its head.
const compactAt = 64

func (t *tail) push(b Batch) {
	if t.limit < 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bytes == 0 {
		t.shared.begin()
	}
	t.batches = append(t.batches, b)
	t.bytes += cap(b.raw)
	limit := t.shared.part(t.limit)
	for t.bytes > limit && t.head < len(t.batches)-1 {
		t.bytes -= cap(t.batches[t.head].raw)
		t.batches[t.head] = Batch{}
		t.head++
	}
	if t.head >= compactAt && t.head > len(t.batches)/2 {
		n := copy(t.batches, t.batches[t.head:])
		clear(t.batches[n:])
		t.batches, t.head = t.batches[:n], 0
	}
}

// find returns the batch that contains off.
func (t *tail) find(off seq.Offset) (Batch, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	live := t.batches[t.head:]
	if len(live) == 0 || off < live[0].First() {
		return Batch{}, false
	}
	i := sort.Search(len(live), func(i int) bool { return live[i].First() > off }) - 1
	if off >= live[i].End() {
		return Batch{}, false
	}
	return live[i], true
}

// cut drops the batches from end on.
func (t *tail) cut(end seq.Offset) {
	t.mu.Lock()
	defer t.mu.Unlock()
	had := t.bytes
	for n := len(t.batches) - 1; n >= t.head && t.batches[n].First() >= end; n-- {
		t.bytes -= cap(t.batches[n].raw)
		t.batches[n] = Batch{}
		t.batches = t.batches[:n]
	}
	t.emptiedLocked(had)
}

// emptiedLocked releases the tail's share once it is empty; it had the given bytes.
func (t *tail) emptiedLocked(had int) {
	if had > 0 && t.bytes == 0 {
		t.shared.end()
	}
}

func (t *tail) drop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	had := t.bytes
	t.batches, t.head, t.bytes = nil, 0, 0
	t.emptiedLocked(had)
}
