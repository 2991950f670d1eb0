package redo

import "sync"

// buffers lends byte slices. Its methods are safe for concurrent use.
type buffers struct{ pool sync.Pool } // of *[]byte

// get returns an empty buffer.
func (b *buffers) get() *[]byte {
	p, _ := b.pool.Get().(*[]byte)
	if p == nil {
		p = new([]byte)
	}
	*p = (*p)[:0]
	return p
}

// put returns a buffer to the pool; nil is ignored.
func (b *buffers) put(p *[]byte) {
	if p != nil {
		b.pool.Put(p)
	}
}
