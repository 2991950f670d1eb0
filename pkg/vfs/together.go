package vfs

import "slices"

// Member is one of many writers of a file each, whose writes a file system has done and synced
// together, in rounds: all that wait, one after the other on one goroutine, behind which one sync
// is for all of them. Its methods are called by that goroutine: who waits in one holds up all
// others.
type Member interface {
	// Write writes, and returns what BeginSync has returned for the file. With nil the round
	// goes on without the member, and Synced is not called.
	Write(g *Gathering) Sync
	// Synced is called once the sync is over. With nil all that the sync covers is durable.
	Synced(g *Gathering, err error)
}

// Gatherer is a way to somebody else, as a connection, that can keep back what is sent between Hold
// and Release, so that all of it is sent together. Calls may be nested. What is kept back for long, or is
// much, is sent all the same.
type Gatherer interface {
	Hold()
	Release()
}

// Gathering is what members of a round have sent together: what is sent within Write by all of
// them, or within Synced. The zero Gathering is empty. It is for one goroutine.
type Gathering struct{ held []Gatherer }

// Hold has what is sent by a Gatherer gather until the last member is done. nil is no Gatherer.
func (g *Gathering) Hold(one Gatherer) {
	if one == nil || slices.Contains(g.held, one) {
		return
	}
	one.Hold()
	g.held = append(g.held, one)
}

// Release has all sent that has gathered. The Gathering may be used again.
func (g *Gathering) Release() {
	for i, one := range g.held {
		one.Release()
		g.held[i] = nil
	}
	g.held = g.held[:0]
}

// Sync is a sync that was begun, and that a round is to end. Of its type only the file system
// knows.
type Sync any

// Join has m write in the next round of f's file system. It returns false, and m is not called,
// where f is better synced by itself: f does not take part in rounds, or not now. It does not
// wait, and may be called with a lock that m's methods take.
func Join(f File, m Member) bool {
	j, ok := f.(interface{ Join(m Member) bool })
	return ok && j.Join(m)
}

// BeginSync begins to make durable what was written to f, as SyncData does, for a Member that is
// asked to write and returns it. With false nothing has begun: the sync would have to wait for
// the disk.
func BeginSync(f File) (Sync, bool) {
	if b, ok := f.(interface{ BeginSync() (Sync, bool) }); ok {
		return b.BeginSync()
	}
	return nil, false
}
