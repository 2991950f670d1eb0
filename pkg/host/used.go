package host

import (
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/meta"
)

// Use records that a client of this node uses the topic.
func (h *Topic) Use() {
	if !h.used.Load() {
		h.used.Store(true)
	}
}

// deletedFor is how long a deletion is remembered: tools delete the same object at one node after
// another.
const deletedFor = 10 * time.Second

// maxDeletions bounds the remembered deletions.
const maxDeletions = 4096

// deletions remembers recent deletions, whichever node was asked for them. Its methods are safe for
// concurrent use.
type deletions struct {
	mu sync.Mutex // guards what follows
	at map[deletion]time.Time
}

// deletion names a topic, or one of its channels.
type deletion struct{ topic, channel string }

// add remembers a deletion from now on.
func (d *deletions) add(what deletion, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, at := range d.at {
		if now.Sub(at) >= deletedFor {
			delete(d.at, k)
		}
	}
	if d.at == nil {
		d.at = map[deletion]time.Time{}
	}
	if len(d.at) < maxDeletions {
		d.at[what] = now
	}
}

// compare remembers the deletion of channels that are in was but not in is.
func (d *deletions) compare(was, is *meta.Topic, now time.Time) {
	if was == is {
		return
	}
	for name := range was.Channels {
		if is.Channels[name] == nil {
			d.add(deletion{was.Name, name}, now)
		}
	}
}

// has reports whether something was deleted recently.
func (d *deletions) has(what deletion, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, ok := d.at[what]
	return ok && now.Sub(at) < deletedFor
}
