package web

import (
	"fmt"
	"time"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/topic"
)

// Options are the options of a message in addition to its body.
type Options struct {
	Key, Dedup string
	TTL        time.Duration
}

// Option names one of them.
type Option string

// The options, as requests name them.
const (
	optionKey   Option = "key"
	optionDedup Option = "dedup"
	optionTTL   Option = "ttl"
)

// OptionError is an option that no message can have.
type OptionError struct {
	Option Option
	text   string
}

// Error describes the error of the option.
func (e *OptionError) Error() string { return e.text }

// Apply gives the options to a message.
func (o Options) Apply(m *topic.Message) error {
	switch {
	case len(o.Key) > topic.MaxKey:
		return &OptionError{optionKey, fmt.Sprintf("key has %d bytes, limit is %d", len(o.Key), topic.MaxKey)}
	case len(o.Dedup) > topic.MaxDedup:
		return &OptionError{optionDedup, fmt.Sprintf("dedup id has %d bytes, limit is %d", len(o.Dedup), topic.MaxDedup)}
	case o.TTL < 0 || o.TTL > meta.MaxTTL:
		return &OptionError{optionTTL, fmt.Sprintf("ttl %v is not between 0s and %v", o.TTL, meta.MaxTTL)}
	}
	if o.Key != "" {
		m.Key = []byte(o.Key)
	}
	if o.Dedup != "" {
		m.Dedup = []byte(o.Dedup)
	}
	if o.TTL > 0 {
		m.TTL = o.TTL
	}
	return nil
}

// Numbered returns the dedup id of message n of a publish that has one id: ID/n. A
// publish without an id has none.
func Numbered(id string, n int) string {
	if id == "" {
		return ""
	}
	return fmt.Sprintf("%s/%d", id, n)
}
