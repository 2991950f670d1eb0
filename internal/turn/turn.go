// Package turn has a lock that may be held for the duration of a disk access.
package turn

// Turn is such a lock. A goroutine that waits for it counts as idle in virtual time, where a
// sync may take long: see testing/synctest.
type Turn chan struct{}

// New returns a turn that is free.
func New() Turn { return make(Turn, 1) }

// Lock acquires the lock.
func (t Turn) Lock() { t <- struct{}{} }

// TryLock acquires the lock if it is free.
func (t Turn) TryLock() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

// Unlock frees the turn.
func (t Turn) Unlock() { <-t }
