package trace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"math"
	"time"

	"github.com/brokerd/brokerd/internal/fields"
	"github.com/brokerd/brokerd/pkg/seq"
)

// A frame is events in the order in which they were noted. It is read without others.
// Fixed numbers are little endian, those marked v are unsigned varints. The checksum is
// CRC-32C over the length and the payload.
//
//	 0        4          8        12
//	+--------+----------+--------+---------+
//	| "BTR1" | checksum | length | payload |
//	|        |   u32    |  u32   | length  |
//	+--------+----------+--------+---------+
//
//	payload: time u64 (ns since 1970), then each event
//	+-----------+-----------+------------------+---------------+------+---------+
//	| what (u8) | parts u16 | time since the   | incarnation v | id v | parts   |
//	|           |           | event before it  |               |      |         |
//	+-----------+-----------+ (signed varint)  +---------------+------+---------+
//
//	parts, in this order, those that their bits name:
//	0 count v · 1 channel · 2 client · 3 attempt v · 4 delay v (ns) · 5 note ·
//	6 trace id u64 · 7 hash of the key u64 · 8 the origin of a copy v · 9 (it moves, no bytes)
//
//	channel, client, note: a number v. 0: a length v and as many bytes, which are the next
//	name of the frame. n: its n-th name.
const (
	frameMagic  = "BTR1"
	frameHeader = 12
	frameSummed = 8 // offset of the length
)

// Bits of the parts of an event.
const (
	partCount uint16 = 1 << iota
	partChannel
	partClient
	partAttempt
	partDelay
	partNote
	partTraceID
	partKey
	partCopy
	partMoves
	knownParts = partMoves<<1 - 1
)

const (
	// frameBytes is the size at which a frame is written.
	frameBytes = 64 << 10
	// maxEvent is an upper bound of the size of an event.
	maxEvent = 3*(maxName+2*binary.MaxVarintLen64) + 128
	// maxFrame limits the payload of a frame that is read: the last event is added to a full one.
	maxFrame = frameBytes + 2*maxEvent
	// maxName is the maximum stored length of a name.
	maxName = 256
)

// errDamaged is wrapped by errors about corrupt data.
var errDamaged = errors.New("corrupt")

// frame is a frame being built.
type frame struct {
	data  []byte // including space for the header; without tail
	last  int64  // the time of the last event in data
	names map[string]uint64
	count int   // of events, including tail
	tail  Event // the last event
	since int64 // the time of the first event that is part of tail
}

// joinable is the maximum difference between the times of events that are stored as one.
const joinable = 100 * time.Microsecond

// add adds an event. If it differs from the last one only in being about the next messages, and a
// little in its time, both become one: consumers are sent consecutive messages together, and finish
// them so. It has the time of the first delivery and of the last other step, so that no message is
// finished before it is delivered.
func (f *frame) add(e *Event) {
	switch {
	case f.count == 0:
		f.begin(e.Time)
	case f.tail.continuedBy(e) && e.Time >= f.since && e.Time-f.since <= int64(joinable):
		f.tail.Count = int(f.tail.count() + e.count()) //nolint:gosec // of messages in memory
		if e.What != Delivered {
			f.tail.Time = max(f.tail.Time, e.Time)
		}
		return
	default:
		f.encode(&f.tail)
	}
	f.tail, f.since = *e, e.Time
	f.count++
}

// begin starts the payload at the time of its first event.
func (f *frame) begin(at int64) {
	f.data = binary.LittleEndian.AppendUint64(append(f.data[:0], make([]byte, frameHeader)...), uint64(at)) //nolint:gosec // the bits of a signed number
	f.last = at
	f.names = map[string]uint64{}
}

func (f *frame) encode(e *Event) {
	le := binary.LittleEndian
	f.data = le.AppendUint16(append(f.data, byte(e.What)), partsOf(e))
	f.data = binary.AppendVarint(f.data, e.Time-f.last)
	f.last = e.Time
	f.data = binary.AppendUvarint(f.data, e.Message.Incarnation)
	f.data = binary.AppendUvarint(f.data, uint64(e.Message.ID))
	f.addParts(e)
}

func (f *frame) addParts(e *Event) {
	le := binary.LittleEndian
	if e.Count > 1 {
		f.data = binary.AppendUvarint(f.data, uint64(e.Count))
	}
	f.name(e.Channel)
	f.name(e.Client)
	if e.Attempt > 0 {
		f.data = binary.AppendUvarint(f.data, uint64(e.Attempt))
	}
	if e.Delay > 0 {
		f.data = binary.AppendUvarint(f.data, uint64(e.Delay))
	}
	f.name(e.Note)
	if e.TraceID != 0 {
		f.data = le.AppendUint64(f.data, e.TraceID)
	}
	if e.KeyHash != 0 {
		f.data = le.AppendUint64(f.data, e.KeyHash)
	}
	if e.IsCopy {
		f.data = binary.AppendUvarint(f.data, uint64(e.CopyOf))
	}
}

// name adds a non-empty name.
func (f *frame) name(s string) {
	if s == "" {
		return
	}
	s = s[:min(len(s), maxName)]
	if n, ok := f.names[s]; ok {
		f.data = binary.AppendUvarint(f.data, n)
		return
	}
	f.names[s] = uint64(len(f.names) + 1)
	f.data = append(f.data, 0)
	f.data = binary.AppendUvarint(f.data, uint64(len(s)))
	f.data = append(f.data, s...)
}

func partsOf(e *Event) (parts uint16) {
	for _, p := range [...]struct {
		bit uint16
		is  bool
	}{
		{partCount, e.Count > 1},
		{partChannel, e.Channel != ""},
		{partClient, e.Client != ""},
		{partAttempt, e.Attempt > 0},
		{partDelay, e.Delay > 0},
		{partNote, e.Note != ""},
		{partTraceID, e.TraceID != 0},
		{partKey, e.KeyHash != 0},
		{partCopy, e.IsCopy},
		{partMoves, e.IsCopy && e.Replaces},
	} {
		if p.is {
			parts |= p.bit
		}
	}
	return parts
}

// full reports whether the frame must be written.
func (f *frame) full() bool { return len(f.data) >= frameBytes }

// seal returns the bytes of the frame, which is not empty, and starts a new one.
func (f *frame) seal() []byte {
	f.encode(&f.tail)
	data := sealed(f.data)
	f.data, f.count = make([]byte, 0, maxFrame), 0
	return data
}

// snapshot returns the bytes of the current frame; nil if it is empty.
func (f *frame) snapshot() []byte {
	if f.count == 0 {
		return nil
	}
	now := frame{data: bytes.Clone(f.data), last: f.last, names: maps.Clone(f.names), count: f.count, tail: f.tail, since: f.since}
	return now.seal()
}

// sealed fills in the header.
func sealed(data []byte) []byte {
	le := binary.LittleEndian
	copy(data, frameMagic)
	le.PutUint32(data[frameSummed:], uint32(len(data)-frameHeader)) //nolint:gosec // at most maxFrame
	le.PutUint32(data[4:], crc32.Checksum(data[frameSummed:], crc32.MakeTable(crc32.Castagnoli)))
	return data
}

// scan calls f with the events of all intact frames in data, in order. It skips damaged data, and
// returns the number of bytes outside of intact frames. The event is valid during the call.
func scan(data []byte, f func(*Event)) (damaged int) {
	for len(data) > 0 {
		payload, size := frameAt(data)
		if size == 0 {
			next := bytes.Index(data[1:], []byte(frameMagic))
			if next < 0 {
				return damaged + len(data)
			}
			damaged += 1 + next
			data = data[1+next:]
			continue
		}
		if decode(payload, f) != nil {
			damaged += size
		}
		data = data[size:]
	}
	return damaged
}

// frameAt returns the payload and the size of the frame at the start of data; size 0 if there is
// none.
func frameAt(data []byte) (payload []byte, size int) {
	le := binary.LittleEndian
	if len(data) < frameHeader || string(data[:4]) != frameMagic {
		return nil, 0
	}
	n := le.Uint32(data[frameSummed:])
	if n > maxFrame || int(n) > len(data)-frameHeader {
		return nil, 0
	}
	size = frameHeader + int(n)
	if crc32.Checksum(data[frameSummed:size], crc32.MakeTable(crc32.Castagnoli)) != le.Uint32(data[4:]) {
		return nil, 0
	}
	return data[frameHeader:size], size
}

// decode calls f with each event of a payload. It returns an error if the rest is unreadable.
func decode(payload []byte, f func(*Event)) error {
	d := decoder{Reader: fields.Reader{Rest: payload}}
	last := int64(d.Uint64()) //nolint:gosec // the bits of a signed number
	for len(d.Rest) > 0 {
		if e := d.event(&last); d.Err() == nil {
			f(&e)
		}
	}
	return d.End(errDamaged, "frame of trace events")
}

// decoder reads a payload.
type decoder struct {
	fields.Reader
	names []string
}

func (d *decoder) event(last *int64) (e Event) {
	e.What = What(d.Uint8())
	parts := d.Uint16()
	if e.What == 0 || e.What >= whats || parts&^knownParts != 0 {
		d.Fail(errors.New("unknown event"))
	}
	*last += d.Varint()
	e.Time = *last
	e.Message = Message{d.Uvarint(), seq.MessageID(d.Uvarint())}
	if parts&partCount != 0 {
		e.Count = int(d.Number(math.MaxInt32)) //nolint:gosec // bounded
	}
	e.Channel, e.Client = d.name(parts&partChannel != 0), d.name(parts&partClient != 0)
	if parts&partAttempt != 0 {
		e.Attempt = uint16(d.Number(math.MaxUint16)) //nolint:gosec // bounded
	}
	if parts&partDelay != 0 {
		e.Delay = time.Duration(d.Number(math.MaxInt64)) //nolint:gosec // bounded
	}
	e.Note = d.name(parts&partNote != 0)
	e.TraceID, e.KeyHash = d.fixed(parts&partTraceID != 0), d.fixed(parts&partKey != 0)
	if e.IsCopy = parts&partCopy != 0; e.IsCopy {
		e.CopyOf = seq.MessageID(d.Uvarint())
	}
	e.Replaces = parts&partMoves != 0
	if partsOf(&e) != parts {
		d.Fail(errors.New("part without content"))
	}
	return e
}

func (d *decoder) fixed(there bool) uint64 {
	if !there {
		return 0
	}
	return d.Uint64()
}

func (d *decoder) name(there bool) string {
	if !there {
		return ""
	}
	if n := d.Number(uint64(len(d.names))); n > 0 {
		return d.names[n-1]
	}
	s := string(d.Next(int(d.Number(maxName)))) //nolint:gosec // bounded
	d.names = append(d.names, s)
	return s
}
