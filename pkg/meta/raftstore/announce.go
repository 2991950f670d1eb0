package raftstore

import (
	"context"

	"github.com/hashicorp/raft"
)

// announcer has followers learn promptly what is committed. In Raft a follower learns
// the commit index with the next entry, or, where none follows, after CommitTimeout;
// whoever proposed through a follower, and every leader of a partition that has to act
// on the change, would wait that long. So the leader of the metadata appends a barrier
// behind the commands that it has applied: an ordinary entry, by the library's own
// interface. Barriers share the write of commands that arrive meanwhile, and one is
// under way at a time: a busy leader appends few, an idle one none.
type announcer struct {
	due chan struct{} // has room for one: something was applied since the last barrier
}

// applied asks for a barrier. It does not block.
func (a announcer) applied() {
	select {
	case a.due <- struct{}{}:
	default:
	}
}

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
			// An error is the end of this leadership, or of the store: both tell followers otherwise.
			_ = s.flights.request(context.Background(), func() raft.Future { return s.raft.Barrier(s.opts.ApplyTimeout) })
		}
	}
}
