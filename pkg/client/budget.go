package client

import (
	"context"
	"sync"
)

// budget limits the bytes of publishes in progress, first come, first served.
type budget struct {
	max int64

	mu      sync.Mutex // guards the fields below
	used    int64
	waiting []*claim
}

// claim is a caller that waits for bytes.
type claim struct {
	bytes   int64
	granted chan struct{}
}

// tryTake reserves n bytes if no caller waits.
func (b *budget) tryTake(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) > 0 || b.used+n > b.max {
		return false
	}
	b.used += n
	return true
}

// reserve waits for n bytes, at most max.
func (b *budget) reserve(ctx context.Context, stop <-chan struct{}, n int64) error {
	if b.tryTake(n) {
		return nil
	}
	c := &claim{n, make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, c)
	b.grantLocked()
	b.mu.Unlock()
	var err error
	select {
	case <-c.granted:
		return nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-stop:
		err = ErrClosed
	}
	b.withdraw(c)
	return err
}

// withdraw cancels a claim, granted or not.
func (b *budget) withdraw(c *claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, w := range b.waiting {
		if w == c {
			b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
			b.grantLocked()
			return
		}
	}
	b.used -= c.bytes
	b.grantLocked()
}

// give returns bytes.
func (b *budget) give(n int64) {
	b.mu.Lock()
	b.used -= n
	if len(b.waiting) > 0 {
		b.grantLocked()
	}
	b.mu.Unlock()
}

func (b *budget) grantLocked() {
	for len(b.waiting) > 0 && b.used+b.waiting[0].bytes <= b.max {
		c := b.waiting[0]
		b.waiting = b.waiting[1:]
		b.used += c.bytes
		close(c.granted)
	}
}
