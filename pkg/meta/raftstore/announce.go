package raftstore

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/raft"

	"github.com/brokerd/brokerd/internal/signal"
)

// announceAgain is how long the announcer waits after a barrier that was refused.
const announceAgain = 50 * time.Millisecond

// announcer has followers learn promptly what is committed. In Raft a follower learns
// the commit index with the next entry, or, where none follows, after CommitTimeout;
// whoever proposed through a follower, and every leader of a partition that has to act
// on the change, would wait that long. So the leader of the metadata appends a barrier
// behind the commands that it has applied: an ordinary entry, by the library's own
// interface. Barriers share the write of commands that arrive meanwhile, and one is
// in progress at a time: a busy leader appends few, an idle one none.
type announcer struct {
	due chan struct{} // has room for one: something was applied since the last barrier
}

// applied asks for a barrier. It does not block.
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

// announce appends a barrier. One that was refused while the leadership was being transferred, or
// since too much waited, is due again a little later: the transfer may fail, and then no other
// leader tells the followers. Any other error is the end of this leadership, or of the store: both
// tell them otherwise.
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
