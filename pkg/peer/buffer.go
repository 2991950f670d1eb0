package peer

import (
	"math/bits"
	"sync"
)

// Sizes of the chunks that frames are read into: powers of four.
const (
	smallestChunk = 16 << 10
	chunkClasses  = 6 // up to 16 MiB; larger chunks are not kept
)

// chunk is a piece of memory that frames are read into.
type chunk struct {
	data []byte
	pool *chunkPool
}

// release gives the chunk back to its pool.
func (c *chunk) release() {
	if class := chunkClass(len(c.data)); class < chunkClasses {
		c.pool.classes[class].Put(c)
	}
}

// chunkPool keeps unused chunks.
type chunkPool struct {
	classes [chunkClasses]sync.Pool
}

// get returns a chunk of at least size bytes.
func (p *chunkPool) get(size int) *chunk {
	class := chunkClass(size)
	if class >= chunkClasses {
		return &chunk{data: make([]byte, size), pool: p}
	}
	if c, ok := p.classes[class].Get().(*chunk); ok {
		return c
	}
	return &chunk{data: make([]byte, smallestChunk<<(2*class)), pool: p}
}

// chunkClass returns the smallest class whose chunks hold size bytes.
func chunkClass(size int) int {
	if size <= smallestChunk {
		return 0
	}
	return (bits.Len(uint((size-1)/smallestChunk)) + 1) / 2
}
