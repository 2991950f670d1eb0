package commitlog

// turn is a lock for what takes as long as a disk does. Who waits for it counts as idle in
// virtual time, where a sync may take long: see testing/synctest.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// Lock takes the turn, and Unlock lets the next have it.
func (t turn) Lock() { t <- struct{}{} }

func (t turn) Unlock() { <-t }
