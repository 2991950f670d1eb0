package nsq

import (
	"math/bits"
	"sync"
)

// Sizes of pooled buffers are powers of two between these.
const (
	minBufferBits = 10
	maxBufferBits = 24
)

// Buffers pools byte buffers for many connections, so that an idle connection holds none. Its zero
// value is ready; it must not be copied. All methods are safe for concurrent use.
type Buffers struct {
	classes [maxBufferBits - minBufferBits + 1]sync.Pool
}

// BufferCap returns the capacity of the buffer that Get returns for n bytes.
func BufferCap(n int) int {
	class := max(bits.Len(uint(max(n, 1)-1)), minBufferBits)
	if class > maxBufferBits {
		return n
	}
	return 1 << class
}

// Get returns a buffer of length 0 and a capacity of at least n bytes.
func (b *Buffers) Get(n int) *[]byte {
	class := max(bits.Len(uint(max(n, 1)-1)), minBufferBits)
	if class > maxBufferBits {
		buf := make([]byte, 0, n)
		return &buf
	}
	if buf, ok := b.classes[class-minBufferBits].Get().(*[]byte); ok {
		*buf = (*buf)[:0]
		return buf
	}
	buf := make([]byte, 0, 1<<class)
	return &buf
}

// Put returns a buffer to the pool. The caller must hold no slice of it.
func (b *Buffers) Put(buf *[]byte) {
	if buf == nil {
		return
	}
	class := bits.Len(uint(cap(*buf))) - 1
	if class < minBufferBits || class > maxBufferBits {
		return
	}
	b.classes[class-minBufferBits].Put(buf)
}
