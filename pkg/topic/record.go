package topic

import (
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/record"
)

// attrDeferred marks batches that hold a message with a delay, so that
// only those are looked through when they are committed.
const attrDeferred uint16 = 1

// attrAddressed marks batches that hold an addressed message, likewise.
const attrAddressed uint16 = 2

// appendRecord adds m's record to the batch being formed.
func appendRecord(m *Message, b *commitlog.Builder) {
	m.Encode(b.Next(m.Size()))
	if m.Delay > 0 {
		b.SetAttributes(attrDeferred)
	}
	if m.Address != nil {
		b.SetAttributes(attrAddressed)
	}
}

func decodeRecord(p []byte) (Message, error) { return record.Decode(p) }
