package replication

import (
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Events are what a replicator tells the term that it belongs to. The calls
// come from any goroutine, without a lock, and must not block.
type Events struct {
	// Acked: the follower said what it has. Progress of a session other than the
	// newest that Forget named is to be ignored.
	Acked func(Progress)
	// Forget: a session begins. What was believed of the follower is not to be
	// relied on.
	Forget func(session uint64)
	// Compare: the follower said where its log stands, before anything of it is cut.
	// With false nothing is, and it is asked again later. nil: always true.
	Compare func(Standing) bool
	// Longer: the follower refused to cut what is committed in its log. nil: nobody
	// is told.
	Longer func()
	// Superseded: the follower has adopted a newer epoch. The term is over.
	Superseded func(seq.Epoch)
	// Unreadable: the leader's own log is damaged where the follower needs it. nil:
	// nobody is told.
	Unreadable func(error)
}

// unreadable passes on that the leader's log could not be read, if that is for
// damage. It is called without a lock.
func (e *Events) unreadable(err error) {
	if fate.Of(err) == fate.Corrupt && e.Unreadable != nil {
		e.Unreadable(err)
	}
}
