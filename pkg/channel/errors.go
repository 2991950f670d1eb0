package channel

import (
	"github.com/brokerd/brokerd/pkg/fate"

	"github.com/brokerd/brokerd/pkg/failure"
)

// Refusals of a State. Nothing was changed.
var (
	// ErrNotInFlight: the message is not in flight in this channel: it was
	// answered, timed out, or forgotten by a seek.
	ErrNotInFlight error = failure.NotInFlight
	// ErrNotOwner: the message is in flight with another consumer.
	ErrNotOwner = fate.Refuse("client does not own message")
)
