package topic

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
)

// A record is one message in a partition's log; docs/format/record.md draws it:
//
//	flags(1) [delay(8)] [trace id(8)] [header length(2) header] [key length(1) key]
//	[dedup length(1) dedup id] [ttl(8)] body
//
// All integers are little endian. The flags say which optional parts follow; a
// record with a flag that is not known is refused, so that an older program
// does not hand out a newer one's framing as a body.
const (
	flagDelay = 1 << iota
	flagTraceID
	flagHeader
	flagKey
	flagDedup
	flagTTL
	knownFlags = flagDelay | flagTraceID | flagHeader | flagKey | flagDedup | flagTTL
)

// The most bytes that parts of a message may have.
const (
	MaxHeader = 65534
	MaxKey    = 255
	MaxDedup  = 64
)

// attrDeferred marks batches that hold a message with a delay, so that
// only those are looked through when they are committed.
const attrDeferred uint16 = 1

// errBadRecord is returned for bytes that are no record. A checksum has
// already been verified, so it means a program's mistake or a newer format.
var errBadRecord = errors.New("invalid message record")

// recordSize returns the length of m's record.
func (m *Message) recordSize() int {
	n := 1 + len(m.Body)
	if m.Delay > 0 {
		n += 8
	}
	if m.TraceID != 0 {
		n += 8
	}
	if m.Header != nil {
		n += 2 + len(m.Header)
	}
	return n + m.optionsSize()
}

// appendRecord adds m's record to the batch being formed.
func (m *Message) appendRecord(b *commitlog.Builder) {
	m.encode(b.Next(m.recordSize()))
	if m.Delay > 0 {
		b.SetAttributes(attrDeferred)
	}
}

// encode writes m's record to p, which is recordSize bytes long.
func (m *Message) encode(p []byte) {
	flags, rest := byte(0), p[1:]
	if m.Delay > 0 {
		flags |= flagDelay
		binary.LittleEndian.PutUint64(rest, uint64(m.Delay))
		rest = rest[8:]
	}
	if m.TraceID != 0 {
		flags |= flagTraceID
		binary.LittleEndian.PutUint64(rest, m.TraceID)
		rest = rest[8:]
	}
	if m.Header != nil {
		flags |= flagHeader
		binary.LittleEndian.PutUint16(rest, uint16(len(m.Header)))
		rest = rest[2+copy(rest[2:], m.Header):]
	}
	if m.hasOptions() {
		flags, rest = m.encodeOptions(flags, rest)
	}
	copy(rest, m.Body)
	p[0] = flags
}

// decodeRecord reads a record. The message's slices point into p.
func decodeRecord(p []byte) (Message, error) {
	if len(p) == 0 || p[0]&^knownFlags != 0 {
		return Message{}, errBadRecord
	}
	flags, rest := p[0], p[1:]
	if flags == 0 {
		return Message{Body: rest}, nil
	}
	var m Message
	if flags&flagDelay != 0 {
		if len(rest) < 8 {
			return Message{}, fmt.Errorf("%w: truncated delay", errBadRecord)
		}
		if m.Delay = time.Duration(binary.LittleEndian.Uint64(rest)); m.Delay <= 0 {
			return Message{}, fmt.Errorf("%w: delay out of range", errBadRecord)
		}
		rest = rest[8:]
	}
	if flags&flagTraceID != 0 {
		if len(rest) < 8 {
			return Message{}, fmt.Errorf("%w: truncated trace id", errBadRecord)
		}
		m.TraceID, rest = binary.LittleEndian.Uint64(rest), rest[8:]
	}
	if flags&flagHeader != 0 {
		if len(rest) < 2 || len(rest)-2 < int(binary.LittleEndian.Uint16(rest)) {
			return Message{}, fmt.Errorf("%w: truncated header", errBadRecord)
		}
		n := 2 + int(binary.LittleEndian.Uint16(rest))
		m.Header, rest = rest[2:n], rest[n:]
	}
	if flags&(flagKey|flagDedup|flagTTL) != 0 {
		var err error
		if rest, err = m.decodeOptions(flags, rest); err != nil {
			return Message{}, err
		}
	}
	m.Body = rest
	return m, nil
}
