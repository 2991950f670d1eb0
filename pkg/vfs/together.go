package vfs

import "slices"

// Member is one of many writers, each with a file of its own. A file system lets them write and
// syncs them together, in rounds: one goroutine calls all waiting members one after the other, and
// then one sync covers all of them. A member that waits in a method delays all others.
type Member interface {
	// Write writes, and returns the result of BeginSync for the file. If it returns nil, the round
	// continues without the member, and Synced is not called.
	Write(g *Gathering) Sync
	// Synced is called when the sync has ended. nil: everything that the sync covers is durable.
	Synced(g *Gathering, err error)
}

// Gatherer is a path to a receiver, such as a connection, that can hold back data between Hold and
// Release, to send it together. Calls may be nested. It sends data that is held back for long, or
// much of it, before Release.
type Gatherer interface {
	Hold()
	Release()
}

// Gathering is what members of a round send together, within Write or within Synced. The zero
// Gathering is empty. One goroutine uses it.
type Gathering struct{ held []Gatherer }

// Hold makes a Gatherer hold back its data until the last member is done. nil is ignored.
func (g *Gathering) Hold(one Gatherer) {
	if one == nil || slices.Contains(g.held, one) {
		return
	}
	one.Hold()
	g.held = append(g.held, one)
}

// Release makes all Gatherers send their data. The Gathering may be used again.
func (g *Gathering) Release() {
	for i, one := range g.held {
		one.Release()
		g.held[i] = nil
	}
	g.held = g.held[:0]
}

// Sync is a sync that was begun and that a round ends. Only the file system knows its type.
type Sync any

// Join makes m write in the next round of f's file system. It returns false, and does not call m,
// if f should be synced alone: f takes no part in rounds, or not now. It does not wait, and may be
// called with a lock that m's methods take.
func Join(f File, m Member) bool {
	j, ok := f.(interface{ Join(m Member) bool })
	return ok && j.Join(m)
}

// BeginSync begins to make durable what was written to f, as SyncData does. A Member calls it in
// Write and returns the result. false: nothing has begun, because the sync would have to wait for
// the disk.
func BeginSync(f File) (Sync, bool) {
	if b, ok := f.(interface{ BeginSync() (Sync, bool) }); ok {
		return b.BeginSync()
	}
	return nil, false
}
