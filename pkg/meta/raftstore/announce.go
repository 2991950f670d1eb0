package raftstore

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/raft"

	"github.com/brokerd/brokerd/internal/signal"
)

// announceAgain is the delay after a refused barrier.
const announceAgain = 50 * time.Millisecond

// announcer makes followers learn promptly what is committed. In Raft a follower learns the commit
// index with the next entry, or, without one, after CommitTimeout. A node that proposed through a
// follower, and every partition leader that must act on the change, would wait that long. The
// metadata leader therefore appends a barrier after the commands that it has applied: an ordinary
// entry, through the library's own interface. Barriers share the write of commands that arrive
// meanwhile, and one is in progress at a time: a busy leader appends few, an idle one none.
type announcer struct {
	due chan struct{} // holds one: something was applied since the last barrier
}

// applied requests a barrier. It does not block.
func (a announcer) applied() { signal.Poke(a.due) }

// keep appends the barriers of s while it leads and has followers, until Close.
func (a announcer) keep(s *Store) {
	for {
		select {
		case <-a.due:
		case <-s.failed:
			return
		case <-s.stop:
			return
		}
		if s.IsLeader() && len(s.raft.GetConfiguration().Configuration().Servers) > 1 {
			a.announce(func() error {
				return s.flights.request(context.Background(), func() raft.Future { return s.raft.Barrier(s.opts.ApplyTimeout) })
			}, s.stop)
		}
	}
}

// announce appends a barrier. A barrier that was refused because the leadership is being
// transferred, or because too much waits, is due again a little later: the transfer may fail, and
// then no other leader informs the followers. Any other error ends this leadership or the store: in
// both cases they are informed otherwise.
func (a announcer) announce(barrier func() error, stop <-chan struct{}) {
	err := barrier()
	if !errors.Is(err, raft.ErrLeadershipTransferInProgress) && !errors.Is(err, raft.ErrEnqueueTimeout) {
		return
	}
	select {
	case <-time.After(announceAgain):
		a.applied()
	case <-stop:
	}
}
