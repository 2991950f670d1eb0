// Package traffic has clients that publish and consume as programs do, and report everything to the
// audit of a cluster that is disturbed.
package traffic

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/test/audit"
)

// Book is the shared state of the clients of a run.
type Book struct {
	Seed  uint64
	Topic string
	Began time.Time
	Calm  atomic.Bool // draining: consumers only finish

	mu    sync.Mutex // guards audit and conns
	audit *audit.Audit
	conns int
}

// NewBook returns the book of a run that begins now.
func NewBook(seed uint64, topic string, o audit.Options) *Book {
	return &Book{Seed: seed, Topic: topic, Began: time.Now(), audit: audit.New(o)}
}

// Tell reports events to the audit.
func (b *Book) Tell(f func(a *audit.Audit, now time.Duration)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(b.audit, time.Since(b.Began))
}

// Stats is the audit's account.
func (b *Book) Stats() (s audit.Stats) {
	b.Tell(func(a *audit.Audit, _ time.Duration) { s = a.Stats() })
	return s
}

// connect reports a connection to a channel in a round to the audit, and returns its number.
func (b *Book) connect(channel, round int) (id int) {
	b.Tell(func(a *audit.Audit, _ time.Duration) {
		b.conns++
		id = b.conns
		a.Connect(id, channel, round)
	})
	return id
}

// Crew is a set of goroutines that end together.
type Crew struct {
	sync.WaitGroup
	cancel context.CancelFunc
}

// Hire has n goroutines work until they are dismissed.
func Hire(n int, work func(ctx context.Context, i int)) *Crew {
	ctx, cancel := context.WithCancel(context.Background())
	c := &Crew{cancel: cancel}
	for i := range n {
		c.Go(func() { work(ctx, i) })
	}
	return c
}

// Dismiss ends the work, and returns when all have ended.
func (c *Crew) Dismiss() {
	c.cancel()
	c.Wait()
}

// Pause waits for d or for the end of ctx.
func Pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// Wrong reports whether the broker's error contradicts a valid command.
func Wrong(data []byte) bool {
	return strings.HasPrefix(string(data), "E_BAD_") || strings.HasPrefix(string(data), "E_INVALID")
}
