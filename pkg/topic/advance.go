package topic

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/brokerd/brokerd/pkg/seq"
)

// advance is what a leader tells the other replicas of one finished message of
// an ordered channel, between two snapshots. Numbers are unsigned varints:
//
//	+-------------+---------------+------+-----------+---------+----------+
//	| version = 1 | name length v | name | version v | floor v | offset v |
//	+-------------+---------------+------+-----------+---------+----------+
//
// It carries no checksum: whoever sends it does.
type advance struct {
	channel string
	version uint64     // of the channel
	floor   seq.Offset // everything below is finished
	offset  seq.Offset // and this, at or above the floor
}

const advanceVersion = 1

// errBadAdvance is wrapped by the errors of decodeAdvance.
var errBadAdvance = errors.New("not a change of a position")

// append appends the encoded change. The name is at most maxNameBytes long.
func (a advance) append(dst []byte) []byte {
	dst = append(dst, advanceVersion)
	dst = binary.AppendUvarint(dst, uint64(len(a.channel)))
	dst = append(dst, a.channel...)
	dst = binary.AppendUvarint(dst, a.version)
	dst = binary.AppendUvarint(dst, uint64(a.floor))
	return binary.AppendUvarint(dst, uint64(a.offset))
}

// decodeAdvance reads exactly one change and keeps no reference to its bytes.
func decodeAdvance(data []byte) (advance, error) {
	if len(data) == 0 {
		return advance{}, fmt.Errorf("%w: no bytes", errBadAdvance)
	}
	if data[0] != advanceVersion {
		return advance{}, fmt.Errorf("%w: version %d", errBadAdvance, data[0])
	}
	d := positionsReader{rest: data[1:]}
	name := d.bytes()
	a := advance{channel: string(name), version: d.number(), floor: seq.Offset(d.number()), offset: seq.Offset(d.number())}
	switch {
	case d.err != nil:
		return advance{}, fmt.Errorf("%w: %w", errBadAdvance, d.err)
	case len(d.rest) != 0:
		return advance{}, fmt.Errorf("%w: bytes after the end", errBadAdvance)
	case len(name) > maxNameBytes:
		return advance{}, fmt.Errorf("%w: a name of %d bytes", errBadAdvance, len(name))
	case a.offset < a.floor || a.offset > seq.MaxOffset:
		return advance{}, fmt.Errorf("%w: offset %d, floor %d", errBadAdvance, a.offset, a.floor)
	}
	return a, nil
}

// apply makes the change to a snapshot. Made again, or late, it does nothing:
// a position never moves back by it. A channel that the snapshot does not have
// is added, since a change says enough; one of another version is older or
// newer than the change, and the newer counts.
func (s *Snapshot) apply(a advance) {
	for i := range s.Channels {
		c := &s.Channels[i]
		if c.Name != a.channel {
			continue
		}
		if c.Version < a.version {
			*c = ChannelPosition{Name: a.channel, Version: a.version}
			c.Position.Floor = a.floor
		}
		if c.Version == a.version {
			c.Position.AdvanceTo(a.floor)
			c.Position.Finish(a.offset)
		}
		return
	}
	c := ChannelPosition{Name: a.channel, Version: a.version}
	c.Position.Floor = a.floor
	c.Position.Finish(a.offset)
	s.Channels = append(s.Channels, c)
}
