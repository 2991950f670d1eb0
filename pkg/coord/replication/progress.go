package replication

import (
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Progress is what a follower is known to have, by its last answer.
type Progress struct {
	Session   uint64     // of the replicator, to which the answer belongs
	End       seq.Offset // it holds everything below, on disk if the policy demands that
	Committed seq.Offset // it knows everything below as committed
	Shares    uint64     // it has stored what was shared up to this number
	Bytes     int64      // size of what it lacks
	At        time.Time  // when the request was sent that it answered in this epoch
	// Trip is the shortest time in this session from a request to its answer.
	Trip time.Duration
}

// answered records the answer to a request that was sent at a time.
func (p *Progress) answered(at, now time.Time) {
	p.At = at
	if trip := now.Sub(at); p.Trip == 0 || trip < p.Trip {
		p.Trip = max(trip, 1)
	}
}

// positionAt returns the position in the virtual log of an offset at which a
// batch begins, or of the log's end if finding it is expensive.
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
