package complaint

import (
	"maps"
	"sync"
	"time"
)

// Rare chooses which occurrences are recorded where records are kept: of each kind one in an interval, and of all
// kinds a limited number, because strangers may cause any number of kinds. It is safe for concurrent use.
type Rare[K comparable] struct {
	Every time.Duration
	Most  int // in an interval

	mu sync.Mutex // guards at
	at map[K]time.Time
}

// IsNew reports whether to record an occurrence of a kind now.
func (r *Rare[K]) IsNew(kind K, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.at, func(_ K, at time.Time) bool { return now.Sub(at) >= r.Every })
	if _, known := r.at[kind]; known || len(r.at) >= r.Most {
		return false
	}
	if r.at == nil {
		r.at = map[K]time.Time{}
	}
	r.at[kind] = now
	return true
}
