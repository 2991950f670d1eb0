package channel

import "github.com/brokerd/brokerd/pkg/fate"

// What a State refuses. Nothing was changed.
var (
	// ErrNotInFlight: the message is not in flight in this channel: it was
	// answered, timed out, or forgotten by a seek.
	ErrNotInFlight = fate.Refuse("ID not in flight")
	// ErrNotOwner: the message is in flight with another consumer.
	ErrNotOwner = fate.Refuse("client does not own message")
)
