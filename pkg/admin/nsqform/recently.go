package nsqform

import (
	"sync"
	"time"
)

const (
	// DeletedFor is how long the deletion of a name by the lookup endpoints is
	// remembered: an admin page calls them once for every lookup address it has
	// and then the nodes, and only the first of these calls finds the name.
	DeletedFor = 10 * time.Second
	// maxRecent limits the number of recorded entries; the oldest are dropped.
	maxRecent = 4096
)

// Recently remembers keys for a while. Its methods may be called by many
// goroutines.
type Recently struct {
	keep time.Duration

	mu   sync.Mutex // guards what follows
	seen map[recentKey]time.Time
	ring []recentEntry // in the order of recording; entries of seen that were not renewed have equal times
}

// recentKey is a topic and a channel or node; the latter may be "".
type recentKey struct{ topic, other string }

type recentEntry struct {
	key recentKey
	at  time.Time
}

// NewRecently returns a Recently that remembers nothing yet.
func NewRecently(keep time.Duration) *Recently {
	return &Recently{keep: keep, seen: map[recentKey]time.Time{}}
}

// Add remembers a key from now on.
func (r *Recently) Add(topic, other string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := recentKey{topic, other}
	r.seen[k] = now
	r.ring = append(r.ring, recentEntry{k, now})
	for len(r.ring) > maxRecent || now.Sub(r.ring[0].at) >= r.keep {
		if old := r.ring[0]; r.seen[old.key].Equal(old.at) {
			delete(r.seen, old.key)
		}
		r.ring = r.ring[1:]
	}
}

// Has reports whether a key was added within the last while before now.
func (r *Recently) Has(topic, other string, now time.Time) bool {
	_, ok := r.When(topic, other, now)
	return ok
}

// When returns when a key was added last, if it is still remembered.
func (r *Recently) When(topic, other string, now time.Time) (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.seen[recentKey{topic, other}]
	if !ok || now.Sub(at) >= r.keep {
		return time.Time{}, false
	}
	return at, true
}

// Forget drops a key.
func (r *Recently) Forget(topic, other string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.seen, recentKey{topic, other})
}
