// Package seq holds the numbers that name places in a partition: offsets,
// epochs, message ids, and sets of offsets. It knows arithmetic and nothing
// else: no time, no disk, no network.
package seq

import (
	"encoding/hex"
	"errors"
	"fmt"
)

// Offset is the sequence number of a message in one partition: dense, from 0.
// An "end" is one past the last offset it speaks of.
type Offset uint64

// Epoch numbers the leaderships of one partition. It grows with every election
// and every restart of a leader. Epoch 0 means "none yet".
type Epoch uint64

// Bounds of the numbers that a MessageID packs.
const (
	offsetBits    = 50
	partitionBits = 10

	// MaxOffset is the largest offset that a MessageID can hold.
	MaxOffset Offset = 1<<offsetBits - 1
	// MaxPartitions is the most partitions that a topic can have.
	MaxPartitions = 1 << partitionBits
)

// MessageID names a message within its topic by its place: the partition in
// bits 50 to 59, the offset below.
type MessageID uint64

// NewMessageID returns the id of the message at offset o of a partition.
func NewMessageID(partition int, o Offset) MessageID {
	return MessageID(partition)<<offsetBits | MessageID(o&MaxOffset)
}

// Partition returns the partition that the id names.
func (id MessageID) Partition() int { return int(id>>offsetBits) & (MaxPartitions - 1) }

// Offset returns the offset that the id names.
func (id MessageID) Offset() Offset { return Offset(id) & MaxOffset }

// String returns the id as the 16 hexadecimal digits of the wire.
func (id MessageID) String() string { return fmt.Sprintf("%016x", uint64(id)) }

// HexLen is the length of a MessageID on the standard wire.
const HexLen = 16

// PutHex writes the 16 lower-case digits of id to dst.
func (id MessageID) PutHex(dst *[HexLen]byte) {
	const digits = "0123456789abcdef"
	for i := HexLen - 1; i >= 0; i-- {
		dst[i] = digits[id&15]
		id >>= 4
	}
}

// ErrBadID is returned for text that is no message id.
var ErrBadID = errors.New("not a message id")

// ParseID reads the 16 digits of a MessageID.
func ParseID(text []byte) (MessageID, error) {
	var raw [8]byte
	if len(text) != HexLen {
		return 0, ErrBadID
	}
	if _, err := hex.Decode(raw[:], text); err != nil {
		return 0, ErrBadID
	}
	var id MessageID
	for _, b := range raw {
		id = id<<8 | MessageID(b)
	}
	if id>>(offsetBits+partitionBits) != 0 {
		return 0, ErrBadID
	}
	return id, nil
}
