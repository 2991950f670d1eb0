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

// Refusals. Each is marked fate.Refused: nothing was changed.
var (
	ErrMessageTooBig error = failure.MessageTooBig
	ErrBusy                = quota.ErrBusy
	ErrDiskFull      error = failure.DiskFull
	ErrExiting       error = failure.ShuttingDown
	// ErrNoWindow refuses messages with dedup ids at a leader that has not yet applied the topic's
	// window, or could not read the stored ids.
	ErrNoWindow error = failure.NoWindow
	ErrNoLeader error = failure.NoLeader
)

// OfThisIncarnation returns an error for a topic that was deleted and created again meanwhile.
func OfThisIncarnation(err error) error {
	if errors.Is(err, meta.ErrStaleIncarnation) {
		return meta.ErrTopicNotFound
	}
	return err
}

// Moving reports whether a publish was refused because another node leads, or the leadership is
// being transferred.
func Moving(err error) bool {
	return fate.Of(err) == fate.Refused &&
		(errors.Is(err, coord.ErrNotLeading) || errors.Is(err, coord.ErrMoving) ||
			errors.Is(err, coord.ErrNotWritable) || errors.Is(err, ErrNoWindow) || errors.Is(err, ErrDiskFull))
}
