package reading

import (
	"errors"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Keys are the keys of consecutive messages of a log. It is not safe for concurrent use.
type Keys struct {
	at   Place
	keys []byte // concatenated
	ends []int  // where each ends
}

// NewKeys returns an empty Keys for a log.
func NewKeys(log *commitlog.Log) *Keys { return &Keys{at: New(log)} }

// Read replaces the keys by those of the messages in [from, end), or of the first of them. A deleted
// message has none. A damaged one has none either, unless elsewhere reports that another replica may
// hold it: then the keys end before it. An error is about the message after the last key.
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

// Len returns the number of messages whose keys were read.
func (k *Keys) Len() int { return len(k.ends) }

// Of returns the key of the i-th message, from 0; empty if it has none.
func (k *Keys) Of(i int) []byte {
	from := 0
	if i > 0 {
		from = k.ends[i-1]
	}
	return k.keys[from:k.ends[i]]
}

// Release frees memory that is needed only while reading.
func (k *Keys) Release() { k.at.Release() }
