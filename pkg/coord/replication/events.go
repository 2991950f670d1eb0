package replication

import (
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Events are the callbacks of a replicator to its term. They are called from any goroutine,
// without a lock, and must not block.
type Events struct {
	// Acked: the follower reported its log end. Ignore progress of any session other than the
	// newest named by Forget.
	Acked func(Progress)
	// Forget: a session begins. Earlier progress of the follower no longer
	// counts.
	Forget func(session uint64)
	// Compare: the follower reported its log end before any truncation. If it returns false
	// nothing is truncated, and the follower is asked again later. nil: always true.
	Compare func(Standing) bool
	// Longer, if set: the follower refused to truncate committed entries.
	Longer func()
	// Superseded: the follower has adopted a newer epoch. The term is over.
	Superseded func(seq.Epoch)
	// Unreadable, if set: the leader's own log is damaged where the follower needs it.
	Unreadable func(error)
}

// unreadable reports an error of reading the leader's log, if its cause is
// damage. It is called without a lock.
func (e *Events) unreadable(err error) {
	if fate.Of(err) == fate.Corrupt && e.Unreadable != nil {
		e.Unreadable(err)
	}
}
