// Package advance encodes the changes of channel positions that a leader sends to the other
// replicas between two snapshots: messages finished by an ordered channel, and delivery counts in
// channels that limit attempts. It is a codec only; pkg/topic applies the changes.
package advance

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/brokerd/brokerd/pkg/seq"
)

// Change is the change of one message. Numbers are unsigned varints:
//
//	+-------------+---------------+------+-----------+---------+----------+---------+------------+
//	| version = 1 | name length v | name | version v | floor v | offset v | moves v | attempts v |
//	+-------------+---------------+------+-----------+---------+----------+---------+------------+
//
// It has no checksum of its own: the request that carries it has one. Changes that are sent
// together follow one another.
type Change struct {
	Channel string
	Version uint64     // of the channel
	Floor   seq.Offset // everything below is finished
	Offset  seq.Offset // at or above the floor: and this, or what has been delivered
	Moves   uint64     // how often an operator has moved the channel
	// Attempts is how often the message has been delivered; 0: it is finished.
	Attempts uint16
}

const (
	// version is the first byte of a change.
	version = 1
	// MaxHead is the most that a change takes beside the name.
	MaxHead = 1 + 6*binary.MaxVarintLen64
	// maxName is the most bytes of a channel's name.
	maxName = math.MaxUint8
	// maxAttempts is where the counter of attempts saturates.
	maxAttempts = 4000
)

// errInvalid is wrapped by the errors of Decode.
var errInvalid = errors.New("invalid position change")

// Append appends the encoded change. The name is at most maxName bytes long.
func (c Change) Append(dst []byte) []byte {
	dst = append(dst, version)
	dst = binary.AppendUvarint(dst, uint64(len(c.Channel)))
	dst = append(dst, c.Channel...)
	for _, n := range [...]uint64{c.Version, uint64(c.Floor), uint64(c.Offset), c.Moves, uint64(c.Attempts)} {
		dst = binary.AppendUvarint(dst, n)
	}
	return dst
}

// Decode reads one change or more, to the end, and keeps no reference to the bytes.
func Decode(data []byte) (all []Change, err error) {
	for len(data) > 0 || len(all) == 0 {
		var c Change
		if c, data, err = decode(data); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// decode reads a change and returns the bytes after it.
func decode(data []byte) (c Change, rest []byte, err error) {
	if len(data) == 0 {
		return c, nil, fmt.Errorf("%w: empty", errInvalid)
	}
	if data[0] != version {
		return c, nil, fmt.Errorf("%w: unknown version %d", errInvalid, data[0])
	}
	length, n := binary.Uvarint(data[1:])
	if n <= 0 || length > uint64(len(data)-1-n) {
		return c, nil, fmt.Errorf("%w: truncated name", errInvalid)
	}
	if length > maxName {
		return c, nil, fmt.Errorf("%w: name of %d bytes", errInvalid, length)
	}
	data = data[1+n:]
	name, rest := data[:length], data[length:]
	var numbers [5]uint64
	for i := range numbers {
		if numbers[i], n = binary.Uvarint(rest); n <= 0 {
			return c, nil, fmt.Errorf("%w: truncated or oversized number", errInvalid)
		}
		rest = rest[n:]
	}
	c = Change{Channel: string(name), Version: numbers[0], Floor: seq.Offset(numbers[1]), Offset: seq.Offset(numbers[2]), Moves: numbers[3]}
	switch {
	case numbers[4] > maxAttempts:
		return c, nil, fmt.Errorf("%w: %d attempts", errInvalid, numbers[4])
	case c.Offset < c.Floor || c.Offset > seq.MaxOffset:
		return c, nil, fmt.Errorf("%w: offset %d below floor %d", errInvalid, c.Offset, c.Floor)
	}
	c.Attempts = uint16(numbers[4])
	return c, rest, nil
}
