package topic

import "github.com/brokerd/brokerd/pkg/commitlog"

const (
	// attrDeferred marks batches that hold a message with a delay, so that only those are scanned
	// when they are committed.
	attrDeferred uint16 = 1 << iota
	// attrAddressed marks batches that hold an addressed message, likewise.
	attrAddressed
	// attrIdentified marks batches that hold a message with a dedup id, so that only those are
	// scanned when a leadership begins.
	attrIdentified
)

// appendRecord appends m's record to the batch in progress.
func appendRecord(m *Message, b *commitlog.Builder) {
	m.Encode(b.Next(m.Size()))
	if m.Delay > 0 {
		b.SetAttributes(attrDeferred)
	}
	if m.Address != nil {
		b.SetAttributes(attrAddressed)
	} else if m.Dedup != nil {
		b.SetAttributes(attrIdentified)
	}
}
