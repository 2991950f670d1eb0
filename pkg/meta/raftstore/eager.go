package raftstore

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/brokerd/brokerd/pkg/meta"
)

const (
	// silentAfter is how long a write may hang until a leader stops telling the
	// others that it is there: whatever waits for its disk, the library's heartbeats
	// go on, and nobody else would be elected.
	silentAfter = time.Second
	// awayCheck is how often it is looked whether a member that is away is still to
	// be sent anything.
	awayCheck = 250 * time.Millisecond
)

// errSilent keeps back what a leader with a hanging disk would send.
var errSilent = errors.New("metadata disk stalled")

// eagerTransport is the library's transport, but for three things.
//
// The library waits longer and longer between attempts to send entries to a
// member that is away, up to ten seconds, though its heartbeats go on. Here a
// failed attempt ends only when the member has answered a heartbeat, so the next
// one follows at once.
//
// What is agreed on is told to followers at once: see nudger.
//
// And a leader whose disk hangs falls silent.
type eagerTransport struct {
	*raft.NetworkTransport
	nudger
	stalled func(now time.Time) time.Duration
	stop    <-chan struct{}
	raft    atomic.Pointer[raft.Raft] // nil until it runs

	mu      sync.Mutex // guards answers
	answers map[raft.ServerID]chan struct{}
}

// answer returns a channel that is closed when a member answers a heartbeat.
func (t *eagerTransport) answer(id raft.ServerID) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	ch := t.answers[id]
	if ch == nil {
		ch = make(chan struct{})
		t.answers[id] = ch
	}
	return ch
}

func (t *eagerTransport) answered(id raft.ServerID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ch := t.answers[id]; ch != nil {
		close(ch)
		delete(t.answers, id)
	}
}

// AppendEntries implements raft.Transport.
func (t *eagerTransport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if t.stalled(time.Now()) > silentAfter {
		return errSilent
	}
	if heartbeat(args) {
		err := t.NetworkTransport.AppendEntries(id, target, args, resp)
		if err == nil {
			t.answered(id)
		}
		return err
	}
	answer := t.answer(id) // also one that comes during the attempt
	err := t.NetworkTransport.AppendEntries(id, target, args, resp)
	if err != nil {
		t.awaitReturn(id, target, answer)
		return err
	}
	t.took(id, target, args, resp)
	return nil
}

// AppendEntriesPipeline implements raft.Transport.
func (t *eagerTransport) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := t.NetworkTransport.AppendEntriesPipeline(id, target)
	if err != nil {
		return nil, err
	}
	e := &eagerPipeline{AppendPipeline: p, t: t, id: id, target: target, taken: make(chan raft.AppendFuture), closed: make(chan struct{})}
	e.watching.Go(e.watch)
	return e, nil
}

// eagerPipeline is a pipeline to a member. It notes what the member takes, and
// falls silent when the leader's disk hangs.
type eagerPipeline struct {
	raft.AppendPipeline
	t      *eagerTransport
	id     raft.ServerID
	target raft.ServerAddress
	taken  chan raft.AppendFuture // what the library consumes

	closing  sync.Once
	closed   chan struct{}
	watching sync.WaitGroup
}

// AppendEntries implements raft.AppendPipeline.
func (p *eagerPipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	if p.t.stalled(time.Now()) > silentAfter {
		return nil, errSilent
	}
	return p.AppendPipeline.AppendEntries(args, resp)
}

// Consumer implements raft.AppendPipeline.
func (p *eagerPipeline) Consumer() <-chan raft.AppendFuture { return p.taken }

// watch passes on what was answered.
func (p *eagerPipeline) watch() {
	for {
		select {
		case f := <-p.AppendPipeline.Consumer():
			if f.Error() == nil {
				p.t.took(p.id, p.target, f.Request(), f.Response())
			}
			select {
			case p.taken <- f:
			case <-p.closed:
				return
			}
		case <-p.closed:
			return
		}
	}
}

// Close implements raft.AppendPipeline.
func (p *eagerPipeline) Close() error {
	err := p.AppendPipeline.Close()
	p.closing.Do(func() { close(p.closed) })
	p.watching.Wait()
	return err
}

// heartbeat says whether a request brings nothing but the leader's name: the
// library's entries come with their place.
func heartbeat(a *raft.AppendEntriesRequest) bool {
	return len(a.Entries) == 0 && a.PrevLogEntry == 0 && a.PrevLogTerm == 0 && a.LeaderCommitIndex == 0
}

// awaitReturn waits until a member has answered, for as long as this node leads
// and that is its place.
func (t *eagerTransport) awaitReturn(id raft.ServerID, target raft.ServerAddress, answer <-chan struct{}) {
	tick := time.NewTicker(awayCheck)
	defer tick.Stop()
	for {
		select {
		case <-answer:
			return
		case <-t.stop:
			return
		case <-tick.C:
			if !t.wanted(id, target) {
				return
			}
		}
	}
}

// leads says whether this node leads in a term.
func (t *eagerTransport) leads(term uint64) bool {
	r := t.raft.Load()
	return r != nil && r.State() == raft.Leader && r.CurrentTerm() == term
}

// agreed returns the index up to which everything is agreed on.
func (t *eagerTransport) agreed() uint64 {
	if r := t.raft.Load(); r != nil {
		return r.CommitIndex()
	}
	return 0
}

// wanted says whether a member is still to be sent entries at an address.
func (t *eagerTransport) wanted(id raft.ServerID, target raft.ServerAddress) bool {
	r := t.raft.Load()
	if r == nil || r.State() != raft.Leader {
		return false
	}
	for _, v := range r.GetConfiguration().Configuration().Servers {
		if v.ID == id {
			return v.Address == target
		}
	}
	return false
}

// owner returns the member at an address; "": none, or it is not known yet.
func (t *eagerTransport) owner(address string) meta.NodeID {
	r := t.raft.Load()
	if r == nil {
		return ""
	}
	for _, v := range r.GetConfiguration().Configuration().Servers {
		if string(v.Address) == address {
			return meta.NodeID(v.ID)
		}
	}
	return ""
}
