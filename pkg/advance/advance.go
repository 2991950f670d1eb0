// Package advance encodes the changes of channel positions that a leader sends to the other
// replicas between two snapshots: messages finished by an ordered channel, and delivery counts in
// channels that limit attempts. It is a codec only; pkg/topic applies the changes.
package advance

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/brokerd/brokerd/internal/fields"
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
	Attempts seq.Attempts
}

const (
	// version is the first byte of a change.
	version = 1
	// MaxHead is the maximum size of a change without the name.
	MaxHead = 1 + 6*binary.MaxVarintLen64
	// maxName is the most bytes of a channel's name.
	maxName = math.MaxUint8
)

// errInvalid is wrapped by the errors of Decode.
var errInvalid = errors.New("invalid")

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
	r := fields.Reader{Rest: data}
	for len(r.Rest) > 0 || len(all) == 0 {
		all = append(all, decode(&r))
	}
	if err := r.End(errInvalid, "position change"); err != nil {
		return nil, err
	}
	return all, nil
}

func decode(r *fields.Reader) Change {
	if v := r.Uint8(); v != version {
		r.Fail(fmt.Errorf("unknown version %d", v))
	}
	c := Change{
		Channel: string(r.Next(int(r.Number(maxName)))), //nolint:gosec // bounded
		Version: r.Uvarint(), Floor: seq.Offset(r.Uvarint()), Offset: seq.Offset(r.Uvarint()), Moves: r.Uvarint(),
		Attempts: seq.Attempts(r.Number(math.MaxUint16)), //nolint:gosec // bounded
	}
	if c.Offset < c.Floor || c.Offset > seq.MaxOffset {
		r.Fail(fmt.Errorf("offset %d below floor %d", c.Offset, c.Floor))
	}
	if !c.Attempts.Valid() {
		r.Fail(errors.New("attempts out of range"))
	}
	return c
}
