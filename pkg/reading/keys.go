package reading

import (
	"errors"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Keys are the keys of messages that stand one behind the other in a log. It is not for concurrent
// use.
type Keys struct {
	at   Place
	keys []byte // one behind the other
	ends []int  // where each ends
}

// NewKeys returns no keys of a log.
func NewKeys(log *commitlog.Log) *Keys { return &Keys{at: New(log)} }

// Read reads the keys of [from, end), or of the first ones, in place of those read before. What is gone
// has none; nor has what is damaged, unless it is elsewhere: then they end before it. An error is of what stands behind
// them.
func (k *Keys) Read(from, end seq.Offset, elsewhere func(*commitlog.CorruptionError) bool) error {
	k.keys, k.ends = k.keys[:0], k.ends[:0]
	defer k.at.Rest()
	for o := from; o < end; o++ {
		raw, err := k.at.Record(o)
		var below *commitlog.BelowStartError
		var damaged *commitlog.CorruptionError
		switch {
		case err == nil:
			k.keys = append(k.keys, record.KeyOf(raw)...)
		case errors.As(err, &damaged) && elsewhere(damaged):
			return err
		case errors.As(err, &damaged), errors.As(err, &below), errors.Is(err, record.ErrInvalid):
		default:
			return err
		}
		k.ends = append(k.ends, len(k.keys))
	}
	return nil
}

// Len returns of how many messages there are keys.
func (k *Keys) Len() int { return len(k.ends) }

// Of returns the key of the message that is so many behind the first; empty: it has none.
func (k *Keys) Of(i int) []byte {
	from := 0
	if i > 0 {
		from = k.ends[i-1]
	}
	return k.keys[from:k.ends[i]]
}

// Release gives up memory that is only needed while there is something to read.
func (k *Keys) Release() { k.at.Release() }
