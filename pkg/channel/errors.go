package channel

import (
	"github.com/brokerd/brokerd/pkg/fate"
)

// Refusals of a State. Nothing was changed.
var (
	// errNotOwner: the message is in flight with another consumer.
	errNotOwner = fate.Refuse("client does not own message")
)
