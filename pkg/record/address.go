package record

import (
	"encoding/binary"
	"fmt"

	"github.com/brokerd/brokerd/pkg/seq"
)

// Address restricts a message to one channel, and names the message that it is a copy
// of. Other channels skip it: they neither deliver nor count it.
type Address struct {
	// Channel is the version of the channel, which distinguishes it from earlier and
	// later ones of its name, or of a deleted one as which it was restored. It is not
	// 0, the version of ephemeral channels.
	Channel uint64
	// Partition and Offset are those of the origin, which was published at
	// Timestamp, in ns since 1970, and has been delivered Attempts times.
	Partition int
	Offset    seq.Offset
	// First is, for a copy that replaces its origin, the offset of the first of the messages that replaced
	// each other: the same for all copies of a message.
	First     seq.Offset
	Timestamp int64
	Attempts  seq.Attempts
	// Moves means that the copy replaces its origin, in the same partition: the origin is
	// finished once the copy is committed.
	Moves bool
	// Chosen means, for a copy that replaces its origin, that an operator sent the origin to the channel:
	// the channel's filter does not apply. It does not apply to a copy that replaces nothing either.
	Chosen bool
}

//	+-------+-------------+---------------+------------+-----------+---------------+--------------+
//	| kind  | channel (8) | partition (2) | offset (8) | first (8) | timestamp (8) | attempts (2) |
//	+-------+-------------+---------------+------------+-----------+---------------+--------------+

// addressBytes is the size of an encoded address.
const addressBytes = 1 + 8 + 2 + 8 + 8 + 8 + 2

// The kinds of addresses.
const (
	addressCopies = iota // the origin is not changed
	addressMoves
	addressMovesChosen // it replaces a copy that did not change its origin
)

// encode writes the address to the first addressBytes of p.
func (a *Address) encode(p []byte) {
	le := binary.LittleEndian
	p[0] = addressCopies
	switch {
	case a.Moves && a.Chosen:
		p[0] = addressMovesChosen
	case a.Moves:
		p[0] = addressMoves
	}
	le.PutUint64(p[1:], a.Channel)
	le.PutUint16(p[9:], uint16(a.Partition)) //nolint:gosec // below seq.MaxPartitions
	le.PutUint64(p[11:], uint64(a.Offset))
	le.PutUint64(p[19:], uint64(a.First))
	le.PutUint64(p[27:], uint64(a.Timestamp)) //nolint:gosec // the bits of a signed number
	le.PutUint16(p[35:], uint16(a.Attempts))
}

// decodeAddress decodes an address at the front of p. It does not retain p.
func decodeAddress(p []byte) (*Address, error) {
	if len(p) < addressBytes {
		return nil, fmt.Errorf("%w: truncated address", ErrInvalid)
	}
	le := binary.LittleEndian
	a := &Address{
		Channel: le.Uint64(p[1:]), Partition: int(le.Uint16(p[9:])), Offset: seq.Offset(le.Uint64(p[11:])),
		First:     seq.Offset(le.Uint64(p[19:])),
		Timestamp: int64(le.Uint64(p[27:])), //nolint:gosec // as above
		Attempts:  seq.Attempts(le.Uint16(p[35:])), Moves: p[0] != addressCopies, Chosen: p[0] == addressMovesChosen,
	}
	if !a.valid() || p[0] > addressMovesChosen {
		return nil, fmt.Errorf("%w: address out of range", ErrInvalid)
	}
	return a, nil
}

func (a *Address) valid() bool {
	return a.Channel != 0 && a.Partition < seq.MaxPartitions && a.Offset <= seq.MaxOffset && a.First <= a.Offset && a.Attempts.Valid()
}
