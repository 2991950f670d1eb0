// Package buffer pools the byte buffers of many connections.
//
// Invariants: a buffer that Get returns has a capacity of Cap bytes, for which its user may charge; a buffer in the pool has no other owner.
package buffer

import (
	"math/bits"
	"sync"
)

// Sizes of pooled buffers are powers of two between these.
const (
	minBits = 10
	maxBits = 24
)

// Pool keeps byte buffers for reuse, so that an idle connection need not hold one. The zero value is ready for use. A Pool
// must not be copied. Its methods are safe for concurrent use.
type Pool struct {
	classes [maxBits - minBits + 1]sync.Pool
}

// Cap returns the capacity of the buffer that Get returns for n bytes.
func Cap(n int) int {
	class := max(bits.Len(uint(max(n, 1)-1)), minBits)
	if class > maxBits {
		return n
	}
	return 1 << class
}

// Get returns a buffer of length 0 and a capacity of at least n bytes.
func (p *Pool) Get(n int) *[]byte {
	class := max(bits.Len(uint(max(n, 1)-1)), minBits)
	if class > maxBits {
		buf := make([]byte, 0, n)
		return &buf
	}
	if buf, ok := p.classes[class-minBits].Get().(*[]byte); ok {
		*buf = (*buf)[:0]
		return buf
	}
	buf := make([]byte, 0, 1<<class)
	return &buf
}

// Put returns a buffer to the pool. The caller must hold no slice of it.
func (p *Pool) Put(buf *[]byte) {
	if buf == nil {
		return
	}
	class := bits.Len(uint(cap(*buf))) - 1
	if class < minBits || cap(*buf) > 1<<maxBits {
		return
	}
	*buf = (*buf)[: 0 : 1<<class]
	p.classes[class-minBits].Put(buf)
}
