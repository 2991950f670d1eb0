package channel

import (
	"github.com/brokerd/brokerd/pkg/fate"
)

// Refusals of a State. Nothing was changed.
var (
	// ErrNotOwner: the message is in flight with another consumer.
	ErrNotOwner = fate.Refuse("client does not own message")
)
