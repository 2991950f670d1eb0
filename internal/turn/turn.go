// Package turn has a lock for what takes as long as a disk does.
package turn

// Turn is such a lock. Who waits for it counts as idle in virtual time, where a sync may take
// long: see testing/synctest.
type Turn chan struct{}

// New returns a turn that nobody has.
func New() Turn { return make(Turn, 1) }

// Lock takes the turn.
func (t Turn) Lock() { t <- struct{}{} }

// TryLock takes the turn if nobody has it.
func (t Turn) TryLock() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

// Unlock lets the next have the turn.
func (t Turn) Unlock() { <-t }
