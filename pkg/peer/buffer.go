package peer

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// Sizes of the chunks that frames are read into: powers of four.
const (
	smallestChunk = 16 << 10
	chunkClasses  = 6 // up to 16 MiB; what is larger is not kept
)

// buffer is the payload of a frame. Bytes is valid until the Handler returns;
// who needs it longer calls Retain before that, and Release when done. What is
// retained keeps the whole chunk that it was read with: copy what is small.
type buffer struct {
	Bytes []byte
	chunk *chunk
}

// Retain keeps Bytes valid until a Release.
func (b buffer) Retain() {
	if b.chunk != nil {
		b.chunk.refs.Add(1)
	}
}

// Release ends one Retain. Bytes must not be used after it. It may be called
// from any goroutine.
func (b buffer) Release() {
	if b.chunk != nil {
		b.chunk.release()
	}
}

// chunk is a piece of memory with a count of those who use it.
type chunk struct {
	data []byte
	refs atomic.Int32
	pool *chunkPool
}

// sole tells the only user that it is the only one.
func (c *chunk) sole() bool { return c.refs.Load() == 1 }

func (c *chunk) release() {
	switch n := c.refs.Add(-1); {
	case n == 0:
		c.pool.put(c)
	case n < 0:
		panic("BUG: buffer released twice")
	}
}

// chunkPool keeps chunks that nobody uses.
type chunkPool struct {
	classes [chunkClasses]sync.Pool
}

// get returns a chunk of at least size bytes that has one user.
func (p *chunkPool) get(size int) *chunk {
	class := chunkClass(size)
	if class >= chunkClasses {
		c := &chunk{data: make([]byte, size), pool: p}
		c.refs.Store(1)
		return c
	}
	c, ok := p.classes[class].Get().(*chunk)
	if !ok {
		c = &chunk{data: make([]byte, smallestChunk<<(2*class)), pool: p}
	}
	c.refs.Store(1)
	return c
}

func (p *chunkPool) put(c *chunk) {
	if class := chunkClass(len(c.data)); class < chunkClasses {
		p.classes[class].Put(c)
	}
}

// chunkClass returns the least class whose chunks hold size bytes.
func chunkClass(size int) int {
	if size <= smallestChunk {
		return 0
	}
	return (bits.Len(uint((size-1)/smallestChunk)) + 1) / 2
}
