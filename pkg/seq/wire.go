package seq

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
)

// WireID is the id by which clients know a message: the same in every channel, at every node and
// after every restart, and different for every message of all topics and clusters, as far as 64
// bits can distinguish them.
type WireID uint64

// Numbering assigns wire ids to the messages of one incarnation of a topic: an id is the first id
// plus the message's position. Topics and clusters begin at random numbers, so that the id ranges
// of their messages practically never overlap. As in a position, the partition is in bits 50 to 59
// of an id, and an id is above 0 as a signed number: clients of youzan's nsq rely on both. The zero
// value begins at 0.
type Numbering struct{ first WireID }

// randomBits are those of a first id that differ from topic to topic: what is above the
// partition but the sign, and what is below it but for the highest bit, so that no
// partition counts into the next one within 2^49 messages.
const randomBits WireID = 7<<(offsetBits+partitionBits) | (1<<(offsetBits-1) - 1)

// NumberingOf returns the numbering of a topic, given its cluster and its incarnation, which no
// other topic of the cluster has.
func NumberingOf(cluster string, incarnation uint64) Numbering {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(cluster), incarnation))
	return Numbering{max(WireID(binary.BigEndian.Uint64(sum[:]))&randomBits, 1)}
}

// NumberingFrom returns the numbering whose first id is known.
func NumberingFrom(first WireID) Numbering { return Numbering{first} }

// First returns the id of the first message of partition 0.
func (n Numbering) First() WireID { return n.first }

// ID returns the wire id of a message.
func (n Numbering) ID(m MessageID) WireID { return n.first + WireID(m) }

// Place returns the message that has an id; false: no message of the topic can have it.
func (n Numbering) Place(id WireID) (MessageID, bool) {
	m := MessageID(id - n.first)
	return m, m>>(offsetBits+partitionBits) == 0
}

// String returns the id as the 16 hexadecimal digits of the wire.
func (id WireID) String() string { return fmt.Sprintf("%016x", uint64(id)) }

// HexLen is the length of a WireID on the standard wire.
const HexLen = 16

// PutHex writes the 16 lower-case digits of id to dst.
func (id WireID) PutHex(dst *[HexLen]byte) {
	const digits = "0123456789abcdef"
	for i := HexLen - 1; i >= 0; i-- {
		dst[i] = digits[id&15]
		id >>= 4
	}
}

// errBadID is returned for text that is no message id.
var errBadID = errors.New("not a message id")

// ParseID reads the 16 digits of a WireID.
func ParseID(text []byte) (WireID, error) {
	var raw [8]byte
	if len(text) != HexLen {
		return 0, errBadID
	}
	if _, err := hex.Decode(raw[:], text); err != nil {
		return 0, errBadID
	}
	return WireID(binary.BigEndian.Uint64(raw[:])), nil
}
