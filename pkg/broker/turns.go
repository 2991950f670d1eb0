package broker

import "sync"

// turns has those who change what is held of one topic do so one after the
// other. A turn may take as long as the disk does: only those wait for it who
// want the same topic's.
type turns struct {
	mu     sync.Mutex // guards what follows
	taken  map[string]*turn
	closed bool
	over   sync.Cond // the last turn ended
}

type turn struct {
	mine   chan struct{} // holds one while somebody has the turn
	wanted int           // by how many, the one who has it included
}

// begin waits for the turn of a topic; end ends it. After close it returns
// false and gives no turn.
func (t *turns) begin(name string) (end func(), ok bool) {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil, false
	}
	if t.taken == nil {
		t.taken = map[string]*turn{}
	}
	own := t.taken[name]
	if own == nil {
		own = &turn{mine: make(chan struct{}, 1)}
		t.taken[name] = own
	}
	own.wanted++
	t.mu.Unlock()
	own.mine <- struct{}{}
	return func() { t.end(name, own) }, true
}

func (t *turns) end(name string, own *turn) {
	<-own.mine
	t.mu.Lock()
	defer t.mu.Unlock()
	if own.wanted--; own.wanted > 0 {
		return
	}
	if delete(t.taken, name); len(t.taken) == 0 && t.over.L != nil {
		t.over.Broadcast()
	}
}

// close gives out no more turns and returns when the last one is over.
func (t *turns) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	t.over.L = &t.mu
	for len(t.taken) > 0 {
		t.over.Wait()
	}
}
