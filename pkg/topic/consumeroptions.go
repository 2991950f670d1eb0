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
	// MaxTimeout bounds the time in flight, from the delivery on, to which Touch can extend the
	// timeout.
	MaxTimeout time.Duration
	// SampleRate from 1 to 99 delivers that percentage of the messages and
	// finishes the others; 0 delivers all.
	SampleRate int
	// Tag requests the messages with this tag, shared with other consumers of the tag; ""
	// requests messages without any requested tag.
	Tag string
	// Filter chooses messages; others are finished. nil: all.
	Filter *header.Filter
	// Wake signals that Take may return messages. It must not block.
	Wake func()
	// Serve replaces Wake if one message of a strict channel is next and the caller holds no lock:
	// it may call Take itself, instead of Take's goroutine. nil: Wake.
	Serve func()
	// Ended reports that the channel was closed, and why. It must not block.
	Ended func(reason error)
	// Unfinished, if set, reports that an accepted Finish failed: other replicas have not
	// stored it within FinTimeout, and the message is ready again. It must not block.
	Unfinished func(o seq.Offset, err error)
	// Name identifies the consumer in output.
	Name string
	// Owner is an arbitrary value of the caller, returned by Channel.Consumers.
	Owner any
}
