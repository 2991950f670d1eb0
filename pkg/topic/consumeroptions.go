package topic

import (
	"time"

	"github.com/brokerd/brokerd/pkg/header"
	"github.com/brokerd/brokerd/pkg/seq"
)

// ConsumerOptions describe a consumer of a channel.
type ConsumerOptions struct {
	// Timeout is how long a message may stay in flight.
	Timeout time.Duration
	// MaxTimeout bounds what Touch can extend that to, from the delivery on.
	MaxTimeout time.Duration
	// SampleRate from 1 to 99 delivers that percentage of the messages and
	// finishes the others; 0 delivers all.
	SampleRate int
	// Tag is that of the messages which this consumer alone gets, with others that ask
	// for it; "": those of no tag that is asked for.
	Tag string
	// Filter chooses messages; others are finished. nil: all.
	Filter *header.Filter
	// Wake says that Take may have something. It must not block.
	Wake func()
	// Ended says that the channel is gone, and why. It must not block.
	Ended func(reason error)
	// Unfinished says that a Finish that was taken failed: others have not stored it
	// within FinTimeout, and the message is ready again. It must not block. nil: nobody
	// is told.
	Unfinished func(o seq.Offset, err error)
	// Name tells people who it is.
	Name string
	// Owner is whatever the caller wants Channel.Consumers to lead back to.
	Owner any
}
