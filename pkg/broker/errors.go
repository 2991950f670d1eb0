package broker

import "github.com/brokerd/brokerd/pkg/fate"

// What the broker refuses. Each is marked fate.Refused: nothing was changed.
var (
	ErrTopicNotFound     = fate.Refuse("topic not found")
	ErrTopicExists       = fate.Refuse("topic exists with another configuration")
	ErrChannelNotFound   = fate.Refuse("channel not found")
	ErrPartitionNotFound = fate.Refuse("partition not found")
	ErrPartitionNeeded   = fate.Refuse("an ordered topic needs a partition or a key")
	ErrInvalidTopic      = fate.Refuse("topic name is not valid")
	ErrInvalidChannel    = fate.Refuse("channel name is not valid")
	ErrInvalidConfig     = fate.Refuse("topic configuration is not valid")
	ErrMessageTooBig     = fate.Refuse("message too big")
	ErrBusy              = fate.Refuse("too much waiting to be written")
	ErrDiskFull          = fate.Refuse("the disk is nearly full")
	ErrExiting           = fate.Refuse("shutting down")
	ErrTooManyConsumers  = fate.Refuse("too many consumers of the channel")
	ErrOrderedOnly       = fate.Refuse("the topic allows ordered consumers only")
)
