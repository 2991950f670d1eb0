package broker

import (
	"context"
	"sync"
)

// adopter finds partitions elsewhere that nobody consumes.
type adopter struct {
	b    *Broker
	stir chan struct{} // holds one

	mu   sync.Mutex // guards subs
	subs map[*Subscription]struct{}
}

func newAdopter(b *Broker) *adopter {
	return &adopter{b: b, stir: make(chan struct{}, 1), subs: map[*Subscription]struct{}{}}
}

func (a *adopter) note(s *Subscription) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.subs[s] = struct{}{}
}

func (a *adopter) forget(s *Subscription) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.subs, s)
}

func (a *adopter) poke() {
	select {
	case a.stir <- struct{}{}:
	default:
	}
}

func (a *adopter) run(ctx context.Context) { <-ctx.Done() }
