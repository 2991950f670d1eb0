package topiclog

import (
	"context"
	"slices"
	"strconv"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

// Originals reads ranges of a topic and leaves out the copies of messages that it has read: those that are in the log
// for one channel alone would be messages for all channels elsewhere. A copy whose original is not in the ranges, or
// was deleted by retention, is read. The zero value has read nothing.
type Originals struct {
	Copies uint64 // number of copies left out
	read   []span
}

// span is the ids of messages of a partition, which follow each other, from one to before another.
type span struct{ from, end uint64 }

// Each is Range.Each without copies.
func (x *Originals) Each(ctx context.Context, r *Range, gone *uint64, f func(*api.Peeked) error) error {
	return r.Each(ctx, gone, func(m *api.Peeked) error {
		known := m.CopyOf != "" && x.has(number(m.CopyOf))
		x.add(number(m.ID)) // copies may have copies
		if known {
			x.Copies++
			return nil
		}
		return f(m)
	})
}

// number returns the number that is the id of a message, or 0, the id of no message.
func number(id string) uint64 {
	n, _ := strconv.ParseUint(id, 16, 64) // an unknown id is no original
	return n
}

// add records a message as read. Those of a partition are read in order.
func (x *Originals) add(id uint64) {
	if n := len(x.read); n > 0 && x.read[n-1].end == id {
		x.read[n-1].end++
		return
	}
	x.read = append(x.read, span{id, id + 1})
}

// has reports whether a message was read.
func (x *Originals) has(id uint64) bool {
	return slices.ContainsFunc(x.read, func(s span) bool { return s.from <= id && id < s.end })
}
