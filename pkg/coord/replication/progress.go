package replication

import (
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Progress is what a follower is known to have, by an answer of its.
type Progress struct {
	Session   uint64     // of the replicator, which the answer belongs to
	End       seq.Offset // it holds everything below, on disk if the policy asks for it
	Committed seq.Offset // it knows everything below as committed
	Shares    uint64     // it has stored what was shared up to this number
	Bytes     int64      // size of what it lacks
	At        time.Time  // when the request was made that it answered in this epoch
	// Trip is the shortest time in this session from a request to its answer.
	Trip time.Duration
}

// answered notes that a request which was made at a time has been answered.
func (p *Progress) answered(at, now time.Time) {
	p.At = at
	if trip := now.Sub(at); p.Trip == 0 || trip < p.Trip {
		p.Trip = max(trip, 1)
	}
}

// positionAt returns where in the virtual log an offset lies at which a batch
// begins, or the log's end where that cannot be told cheaply.
func positionAt(l *commitlog.Log, at seq.Offset) int64 {
	if at == l.Start() {
		return commitlog.OriginOf(l).Position
	}
	reader := l.NewReader()
	defer reader.Release()
	if b, err := reader.Batch(at); err == nil {
		return b.Position()
	}
	return l.EndPosition()
}
