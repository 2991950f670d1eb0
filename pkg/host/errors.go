package host

import (
	"errors"

	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/quota"
)

// AnyPartition lets the broker pick the partition.
const AnyPartition = -1

// What a node refuses. Each is marked fate.Refused: nothing was changed.
var (
	ErrMessageTooBig error = failure.MessageTooBig
	ErrBusy                = quota.ErrBusy
	ErrDiskFull      error = failure.DiskFull
	ErrExiting       error = failure.ShuttingDown
	// ErrNoWindow refuses messages with dedup ids at a leader that has not applied yet that
	// the topic uses them, or could not read which ones are stored.
	ErrNoWindow error = failure.NoWindow
	ErrNoLeader error = failure.NoLeader
)

// OfThisIncarnation says that a topic that was deleted and created again meanwhile is
// not the one that was meant.
func OfThisIncarnation(err error) error {
	if errors.Is(err, meta.ErrStaleIncarnation) {
		return meta.ErrTopicNotFound
	}
	return err
}

// Moving reports whether a publish was refused because the leadership is elsewhere
// or on its way.
func Moving(err error) bool {
	return fate.Of(err) == fate.Refused &&
		(errors.Is(err, coord.ErrNotLeading) || errors.Is(err, coord.ErrMoving) ||
			errors.Is(err, coord.ErrNotWritable) || errors.Is(err, ErrNoWindow) || errors.Is(err, ErrDiskFull))
}
