package topic

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/brokerd/brokerd/pkg/seq"
)

// advance is what a leader tells the other replicas of one message between two
// snapshots: that an ordered channel has finished it, or how often a channel that bounds
// attempts has delivered it. Numbers are unsigned varints:
//
//	+-------------+---------------+------+-----------+---------+----------+---------+------------+
//	| version = 1 | name length v | name | version v | floor v | offset v | moves v | attempts v |
//	+-------------+---------------+------+-----------+---------+----------+---------+------------+
//
// It carries no checksum: whoever sends it does.
type advance struct {
	channel string
	version uint64     // of the channel
	floor   seq.Offset // everything below is finished
	offset  seq.Offset // at or above the floor: and this, or what has been delivered
	moves   uint64     // see ChannelPosition
	// attempts is how often the message has been delivered; 0: it is finished.
	attempts uint16
}

const (
	advanceVersion = 1
	maxAdvanceHead = 1 + 6*binary.MaxVarintLen64 // the most that a change takes beside the name
)

// errBadAdvance is wrapped by the errors of decodeAdvance.
var errBadAdvance = errors.New("invalid position change")

// append appends the encoded change. The name is at most maxNameBytes long.
func (a advance) append(dst []byte) []byte {
	dst = append(dst, advanceVersion)
	dst = binary.AppendUvarint(dst, uint64(len(a.channel)))
	dst = append(dst, a.channel...)
	dst = binary.AppendUvarint(dst, a.version)
	dst = binary.AppendUvarint(dst, uint64(a.floor))
	dst = binary.AppendUvarint(dst, uint64(a.offset))
	dst = binary.AppendUvarint(dst, a.moves)
	return binary.AppendUvarint(dst, uint64(a.attempts))
}

// decodeAdvance reads exactly one change and keeps no reference to its bytes.
func decodeAdvance(data []byte) (advance, error) {
	if len(data) == 0 {
		return advance{}, fmt.Errorf("%w: empty", errBadAdvance)
	}
	if data[0] != advanceVersion {
		return advance{}, fmt.Errorf("%w: unknown version %d", errBadAdvance, data[0])
	}
	d := positionsReader{rest: data[1:]}
	name := d.bytes()
	a := advance{channel: string(name), version: d.number(), floor: seq.Offset(d.number()), offset: seq.Offset(d.number()), moves: d.number()}
	attempts := d.number()
	a.attempts = uint16(min(attempts, MaxAttempts))
	switch {
	case d.err != nil:
		return advance{}, fmt.Errorf("%w: %w", errBadAdvance, d.err)
	case len(d.rest) != 0:
		return advance{}, fmt.Errorf("%w: trailing bytes", errBadAdvance)
	case attempts > MaxAttempts:
		return advance{}, fmt.Errorf("%w: %d attempts", errBadAdvance, attempts)
	case len(name) > maxNameBytes:
		return advance{}, fmt.Errorf("%w: name of %d bytes", errBadAdvance, len(name))
	case a.offset < a.floor || a.offset > seq.MaxOffset:
		return advance{}, fmt.Errorf("%w: offset %d below floor %d", errBadAdvance, a.offset, a.floor)
	}
	return a, nil
}

// apply makes the change to a snapshot. Made again, or late, it does nothing:
// a position never moves back by it.
func (s *Snapshot) apply(a advance) {
	if c := s.meet(a.channel, a.version, a.moves, a.floor); c != nil {
		c.Position.AdvanceTo(a.floor)
		if a.attempts > 0 {
			c.Position.Attempt(a.offset, a.attempts)
		} else {
			c.Position.Finish(a.offset)
		}
	}
}

// meet returns the channel that a change of its position is about, or nil if the
// snapshot knows newer of it. A channel that the snapshot does not have, or only
// from before an operator moved it, begins at the floor that the change names:
// everything below is finished.
func (s *Snapshot) meet(name string, version, moves uint64, floor seq.Offset) *ChannelPosition {
	i := slices.IndexFunc(s.Channels, func(c ChannelPosition) bool { return c.Name == name })
	if i < 0 {
		i = len(s.Channels)
		s.Channels = append(s.Channels, ChannelPosition{Name: name})
	}
	c := &s.Channels[i]
	switch cmp.Or(cmp.Compare(c.Version, version), cmp.Compare(c.Moves, moves)) {
	case -1:
		*c = ChannelPosition{Name: name, Version: version, Moves: moves}
		c.Position.Floor = floor
	case 1:
		return nil
	}
	return c
}
