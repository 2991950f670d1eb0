// Package record is the codec of messages as records of a partition's log. It does not know the
// log.
package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// A record is one message in a partition's log; docs/format/record.md draws it:
//
//	flags(1) [delay(8)] [trace id(8)] [header length(2) header] [key length(1) key]
//	[dedup length(1) dedup id] [ttl(8)] [address(29)] body
//
// All integers are little endian. The flags say which optional parts follow. A
// record with an unknown flag is refused, so that an older program does not
// deliver the framing of a newer one as a body.
const (
	flagDelay = 1 << iota
	flagTraceID
	flagHeader
	flagKey
	flagDedup
	flagTTL
	flagAddress
	knownFlags = flagDelay | flagTraceID | flagHeader | flagKey | flagDedup | flagTTL | flagAddress
)

// The maximum sizes of the parts of a message, in bytes.
const (
	MaxHeader = 65534
	MaxKey    = 255
	MaxDedup  = 64
)

// ErrInvalid is wrapped by the error for bytes that are not a record. A checksum
// has already been verified, so it means a bug or a newer format.
var ErrInvalid = errors.New("invalid message record")

// Message is a message to be published.
type Message struct {
	Body    []byte
	Delay   time.Duration // from when the leader appends it; 0: at once
	TraceID uint64        // 0: none
	Header  []byte        // a JSON object; nil: none
	Key     []byte        // at most MaxKey bytes; nil: none
	Dedup   []byte        // the publisher's id for it, at most MaxDedup bytes; nil: none
	TTL     time.Duration // from when the leader appends it; 0: it does not expire
	Address *Address      // the only channel that gets it; nil: all channels get it
	From    *Publisher    // who published it; nil: the topic is not traced. It is not stored in the record
}

// Publisher names the client that published a message, and those after it in the same
// publish, to a traced topic.
type Publisher struct {
	Client string // its address, or another name of it
	Node   string // to which it was connected
}

// Size returns the length of m's record.
func (m *Message) Size() int {
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
	if m.Address != nil {
		n += addressBytes
	}
	return n + m.optionsSize()
}

// Encode writes m's record to p, which is Size bytes long.
func (m *Message) Encode(p []byte) {
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
	if m.Address != nil {
		flags |= flagAddress
		m.Address.encode(rest)
		rest = rest[addressBytes:]
	}
	copy(rest, m.Body)
	p[0] = flags
}

// Decode reads a record. The message's slices point into p.
func Decode(p []byte) (m Message, err error) {
	err = m.Decode(p)
	return m, err
}

// Decode makes m the message of a record. Its slices point into p. After an error m is not valid.
func (m *Message) Decode(p []byte) error {
	if len(p) == 0 || p[0]&^knownFlags != 0 {
		return ErrInvalid
	}
	flags, rest := p[0], p[1:]
	*m = Message{Body: rest}
	if flags == 0 {
		return nil
	}
	if flags&flagDelay != 0 {
		if len(rest) < 8 {
			return fmt.Errorf("%w: truncated delay", ErrInvalid)
		}
		if m.Delay = time.Duration(binary.LittleEndian.Uint64(rest)); m.Delay <= 0 {
			return fmt.Errorf("%w: delay out of range", ErrInvalid)
		}
		rest = rest[8:]
	}
	if flags&flagTraceID != 0 {
		if len(rest) < 8 {
			return fmt.Errorf("%w: truncated trace id", ErrInvalid)
		}
		m.TraceID, rest = binary.LittleEndian.Uint64(rest), rest[8:]
	}
	if flags&flagHeader != 0 {
		if len(rest) < 2 || len(rest)-2 < int(binary.LittleEndian.Uint16(rest)) {
			return fmt.Errorf("%w: truncated header", ErrInvalid)
		}
		n := 2 + int(binary.LittleEndian.Uint16(rest))
		m.Header, rest = rest[2:n], rest[n:]
	}
	if flags&(flagKey|flagDedup|flagTTL) != 0 {
		var err error
		if rest, err = m.decodeOptions(flags, rest); err != nil {
			return err
		}
	}
	if flags&flagAddress != 0 {
		var err error
		if m.Address, err = decodeAddress(rest); err != nil {
			return err
		}
		rest = rest[addressBytes:]
	}
	m.Body = rest
	return nil
}
