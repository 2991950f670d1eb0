//go:build !linux

package hugepage

// Heap is the memory of Go's heap. It is not safe for concurrent use.
type Heap struct{}

// NewHeap returns nil: the system has no call that moves memory into huge pages.
func NewHeap(*byte) *Heap { return nil }

// Forget does nothing.
func (h *Heap) Forget() {}

// Move does nothing.
func (h *Heap) Move() (moved int, err error) { return 0, nil }
