package broker

import (
	"errors"

	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/quota"
)

// What the broker refuses. Each is marked fate.Refused: nothing was changed.
var (
	// ErrNoWindow refuses messages with dedup ids at a leader that has not applied yet that
	// the topic uses them, or could not read which ones are stored.
	ErrNoWindow          = fate.Refuse("the leader does not know the topic's deduplication window yet")
	ErrTopicNotFound     = meta.ErrTopicNotFound
	ErrTopicExists       = meta.ErrExists
	ErrChannelNotFound   = meta.ErrChannelNotFound
	ErrPartitionNotFound = meta.ErrPartitionNotFound
	ErrInvalidConfig     = meta.ErrInvalidConfig
	ErrPartitionNeeded   = fate.Refuse("ordered topic requires a partition or a key")
	ErrInvalidTopic      = fate.Refuse("invalid topic name")
	ErrInvalidChannel    = fate.Refuse("invalid channel name")
	ErrMessageTooBig     = fate.Refuse("message too big")
	ErrBusy              = quota.ErrBusy
	ErrDiskFull          = fate.Refuse("disk nearly full")
	ErrExiting           = fate.Refuse("shutting down")
	ErrTooManyConsumers  = fate.Refuse("too many consumers on the channel")
)

// ofThisIncarnation says that a topic that was deleted and created again meanwhile is
// not the one that was meant.
func ofThisIncarnation(err error) error {
	if errors.Is(err, meta.ErrStaleIncarnation) {
		return ErrTopicNotFound
	}
	return err
}
