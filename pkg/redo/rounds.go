package redo

import (
	"runtime"
	"sync"

	"github.com/brokerd/brokerd/internal/stack"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// maxRound is how many members write in one round. Further members wait for the next round, after
// this round's sync.
const maxRound = 1024

// rounds makes members write, and syncs their writes with one record of the journal: see
// vfs.Member. With many busy files a goroutine for each would cost more than its writes: it would
// have to be started, to wait for the record, and to be woken. A single goroutine runs all rounds,
// and only while members wait. Many goroutines may call the methods.
type rounds struct {
	fs *FS

	mu      sync.Mutex // guards what follows
	waiting []vfs.Member
	runs    bool
}

// join lets a member write in the next round.
func (r *rounds) join(m vfs.Member) {
	r.mu.Lock()
	r.waiting = append(r.waiting, m)
	begin := !r.runs
	r.runs = true
	r.mu.Unlock()
	if begin {
		go r.run()
	}
}

// run runs one round after the other while members wait.
func (r *rounds) run() {
	stack.Grow()
	var round round
	for {
		// A goroutine that is about to publish on this processor does so first: otherwise it would
		// wait for this whole round, and rounds would be small.
		runtime.Gosched()
		if !r.take(&round) {
			return
		}
		round.write()
		round.sync(r.fs)
	}
}

// take moves waiting members into a round. It returns false if there are none: the goroutine ends.
func (r *rounds) take(to *round) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(r.waiting), maxRound)
	to.members = append(to.members[:0], r.waiting[:n]...)
	left := copy(r.waiting, r.waiting[n:])
	clear(r.waiting[left:])
	r.waiting = r.waiting[:left]
	if n == 0 {
		r.waiting, r.runs = nil, false // it may be large
	}
	return n > 0
}

// round is members that write together.
type round struct {
	members  []vfs.Member // after write: the members whose sync has begun
	requests []*request   // of each member
	gathers  vfs.Gathering
}

func (r *round) write() {
	n := 0
	r.requests = r.requests[:0]
	for _, m := range r.members {
		if s, ok := m.Write(&r.gathers).(*request); ok {
			r.requests = append(r.requests, s)
			r.members[n] = m
			n++
		}
	}
	r.gathers.Release() // before the sync, so that others sync at the same time
	clear(r.members[n:])
	r.members = r.members[:n]
}

// sync makes the writes durable and notifies the members.
func (r *round) sync(fs *FS) {
	if len(r.requests) == 0 {
		return
	}
	err := fs.journal.submit(r.requests...)
	for i, s := range r.requests {
		fs.journal.buffers.put(s.kept)
		r.requests[i] = nil
	}
	fs.syncing.Add(-int32(len(r.requests))) //nolint:gosec // at most maxRound
	for i, m := range r.members {
		m.Synced(&r.gathers, err)
		r.members[i] = nil
	}
	r.gathers.Release()
}

// Join implements vfs.Join. A file that is not live is synced by its caller.
func (h *handle) Join(m vfs.Member) bool {
	if h.file.live.Load() == 0 || h.file.gone.Load() {
		return false
	}
	h.fs.rounds.join(m)
	return true
}

// BeginSync implements vfs.BeginSync. It works for a live file to which one run of bytes was
// written that is still in memory.
func (h *handle) BeginSync() (vfs.Sync, bool) {
	s, f := h.fs, h.file
	if f.live.Load() == 0 || f.gone.Load() {
		return nil, false
	}
	f.mu.Lock()
	if !f.known || f.resized || len(f.dirty) != 1 || f.kept == nil || f.dirty.bytes() > s.mostJournaled() {
		f.mu.Unlock()
		return nil, false
	}
	r := &request{file: f, kept: f.kept, at: f.dirty[0].from}
	f.dirty, f.kept = f.dirty[:0], nil
	f.mu.Unlock()
	f.journaled.Store(true)
	s.syncing.Add(1)
	return r, true
}
