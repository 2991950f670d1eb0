package web

import (
	"cmp"
	"time"
)

// JSONGrowth is the factor by which JSON makes messages larger: base64, and the names and quotes
// around it.
const JSONGrowth = 2

// Default limits; those of nsqd, if it has them.
const (
	defaultMaxMessage     = 1 << 20          // bytes of one message
	defaultMaxBody        = 5 << 20          // bytes of a body of many messages
	defaultMaxDefer       = time.Hour        // the longest delay of a message
	DefaultPublishTimeout = 30 * time.Second // until a publish is answered as uncertain
	MaxPeek               = 1000             // messages in one answer
)

// Limits limits the resources of one request, or of all requests. Zero fields have the defaults.
type Limits struct {
	// MaxMessage is the largest message in bytes (nsqd: max-msg-size).
	MaxMessage int
	// MaxBody is the largest body of an mpub in bytes (nsqd: max-body-size).
	MaxBody int
	// MaxDefer is the longest delay of a message (nsqd: max-req-timeout).
	MaxDefer time.Duration
	// PublishTimeout is the timeout of a publish. After it the answer says that the outcome is unknown.
	PublishTimeout time.Duration
}

// WithDefaults returns the limits with the defaults for zero fields.
func (l Limits) WithDefaults() Limits {
	l.MaxMessage = cmp.Or(l.MaxMessage, defaultMaxMessage)
	l.MaxBody = cmp.Or(l.MaxBody, defaultMaxBody)
	l.MaxDefer = cmp.Or(l.MaxDefer, defaultMaxDefer)
	l.PublishTimeout = cmp.Or(l.PublishTimeout, DefaultPublishTimeout)
	return l
}

// DrainBytes returns how many bytes are read of a body that is refused.
func (l Limits) DrainBytes() int64 { return max(minDrain, 2*JSONGrowth*int64(l.MaxBody)) }
