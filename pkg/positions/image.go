package positions

import (
	"encoding"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/brokerd/brokerd/internal/fields"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
)

// A positions file. Fixed numbers are little endian, those marked v are unsigned
// varints. The checksum is CRC-32C over everything after it, up to the end of
// the payload; what follows in the file is left from a longer snapshot.
//
//	 0        4          8         10       12       16       24
//	+--------+----------+---------+--------+--------+--------+---------+
//	| "BPOS" | checksum | version | flags  | length | number | payload |
//	|        |   u32    | u16 = 2 | u16    |  u32   |  u64   | length  |
//	+--------+----------+---------+--------+--------+--------+---------+
//
//	payload: backlog from v, addressed v, paused at v (only with flag 1), channels v, then each
//	+---------------+------+-----------+---------+-------------------+----------+
//	| name length v | name | version v | moves v | position length v | position |
//	+---------------+------+-----------+---------+-------------------+----------+
//
// A position is as in docs/format/positions.md and pkg/channel.

const (
	imageMagic   = "BPOS"
	imageVersion = 2
	imageHeader  = 24
	imageSummed  = 8 // where the checksummed part begins

	flagPaused = 1
	flagLost   = 2

	minChannelBytes = 4
	maxNameBytes    = math.MaxUint8
)

// errDamaged is wrapped by errors about a file whose content is not what was written.
var errDamaged = errors.New("corrupt")

// appendSnapshot appends the encoded snapshot to dst, which must be empty.
func appendSnapshot(dst []byte, number uint64, s Snapshot) ([]byte, error) {
	le := binary.LittleEndian
	dst = append(dst, imageMagic...)
	dst = le.AppendUint32(dst, 0) // the checksum
	dst = le.AppendUint16(dst, imageVersion)
	dst = le.AppendUint16(dst, flagsOf(s))
	dst = le.AppendUint32(dst, 0) // the length
	dst = le.AppendUint64(dst, number)
	dst = binary.AppendUvarint(dst, uint64(s.BacklogFrom))
	dst = binary.AppendUvarint(dst, uint64(s.Addressed))
	if s.PausedAt != nil {
		dst = binary.AppendUvarint(dst, uint64(*s.PausedAt))
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.Channels)))
	var err error
	if dst, err = appendChannels(dst, s.Channels); err != nil {
		return nil, err
	}
	if len(dst) > maxImageBytes {
		return nil, fate.Mark(fmt.Errorf("channel positions too large: %d bytes", len(dst)), fate.Refused)
	}
	le.PutUint32(dst[12:], uint32(len(dst)-imageHeader)) //nolint:gosec // bounded above
	le.PutUint32(dst[4:], imageSum(dst))
	return dst, nil
}

func flagsOf(s Snapshot) (flags uint16) {
	if s.PausedAt != nil {
		flags |= flagPaused
	}
	if s.Lost {
		flags |= flagLost
	}
	return flags
}

// appendChannels appends encoded positions of channels, without their count.
func appendChannels(dst []byte, channels []Channel) ([]byte, error) {
	var position []byte
	for _, c := range channels {
		if len(c.Name) > maxNameBytes {
			return nil, fate.Mark(fmt.Errorf("channel name too long: %d bytes", len(c.Name)), fate.Refused)
		}
		var err error
		if position, err = c.Position.AppendBinary(position[:0]); err != nil {
			return nil, err
		}
		dst = appendField(appendChannelHead(dst, c.Name, c.Version, c.Moves), position)
	}
	return dst, nil
}

func appendChannelHead(dst []byte, name string, version, moves uint64) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(name)))
	dst = append(dst, name...)
	dst = binary.AppendUvarint(dst, version)
	return binary.AppendUvarint(dst, moves)
}

// appendField appends a length and as many bytes.
func appendField(dst, field []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(field))), field...)
}

// imageSize returns the length, without remains of a longer snapshot, of a file that
// decodeSnapshot has accepted.
func imageSize(file []byte) int {
	return imageHeader + int(binary.LittleEndian.Uint32(file[12:]))
}

// renumber gives a complete file image another number.
func renumber(image []byte, number uint64) {
	binary.LittleEndian.PutUint64(image[16:], number)
	binary.LittleEndian.PutUint32(image[4:], imageSum(image))
}

// imageSum is the checksum of a complete file image without remains.
func imageSum(image []byte) uint32 {
	return crc32.Checksum(image[imageSummed:], crc32.MakeTable(crc32.Castagnoli))
}

// decodeSnapshot reads a file. Its error wraps errDamaged or
// errNewer.
func decodeSnapshot(file []byte) (uint64, Snapshot, error) {
	le := binary.LittleEndian
	if len(file) < imageHeader || string(file[:4]) != imageMagic {
		return 0, Snapshot{}, damaged("header missing")
	}
	length := uint64(le.Uint32(file[12:]))
	if length > uint64(len(file)-imageHeader) {
		return 0, Snapshot{}, damaged("truncated")
	}
	image := file[:imageHeader+length]
	if imageSum(image) != le.Uint32(file[4:]) {
		return 0, Snapshot{}, damaged("checksum mismatch")
	}
	if version := le.Uint16(file[8:]); version != imageVersion {
		return 0, Snapshot{}, fmt.Errorf("%w: unknown format %d", errNewer, version)
	}
	flags, number := le.Uint16(file[10:]), le.Uint64(file[16:])
	if flags&^(flagPaused|flagLost) != 0 {
		return 0, Snapshot{}, fmt.Errorf("%w: unknown flags %#x", errNewer, flags)
	}
	if number == 0 {
		return 0, Snapshot{}, damaged("snapshot number is 0")
	}
	d := imageReader{fields.Reader{Rest: image[imageHeader:]}}
	snap := d.snapshot(flags&flagPaused != 0)
	snap.Lost = flags&flagLost != 0
	if err := d.End(errDamaged, "channel positions"); err != nil {
		return 0, Snapshot{}, err
	}
	return number, snap, nil
}

func damaged(what string) error { return fmt.Errorf("%w: %s", errDamaged, what) }

// imageReader reads snapshots and updates.
type imageReader struct{ fields.Reader }

func (d *imageReader) snapshot(paused bool) Snapshot {
	s := Snapshot{BacklogFrom: seq.Offset(d.Uvarint()), Addressed: seq.Offset(d.Uvarint())}
	if paused {
		s.PausedAt = new(seq.Offset(d.Uvarint()))
	}
	s.Channels = d.channels()
	return s
}

// channels reads positions of channels after their count.
func (d *imageReader) channels() []Channel {
	n := d.Count(minChannelBytes)
	if n == 0 {
		return nil
	}
	all := make([]Channel, 0, min(n, 1024))
	for range n {
		c := Channel{Name: d.Text(), Version: d.Uvarint(), Moves: d.Uvarint()}
		d.unmarshal(c.Name, &c.Position)
		if d.Err() != nil {
			return nil
		}
		all = append(all, c)
	}
	slices.SortFunc(all, compareNames) // one pass if it is sorted already
	return all
}

// unmarshal decodes a field into a part of a channel's position.
func (d *imageReader) unmarshal(channel string, into encoding.BinaryUnmarshaler) {
	if err := into.UnmarshalBinary(d.Bytes()); err != nil {
		d.Fail(fmt.Errorf("channel %q: %w", channel, err))
	}
}
