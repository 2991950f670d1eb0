package nsq

import (
	"encoding/binary"

	"github.com/brokerd/brokerd/pkg/seq"
)

// The bodies of the extensions' publishes begin with what belongs to the message:
//
//	PUB_TRACE   +-------------+---------+
//	            | trace id: 8 | message |
//	            +-------------+---------+
//	PUB_EXT     +-----------+--------+---------+
//	            | length: 2 | header | message |
//	            +-----------+--------+---------+
//
// The bodies of MPUB_TRACE and MPUB_EXT are those of an MPUB of such messages.
const (
	traceIDLen      = 8
	headerLengthLen = 2
)

// SplitTraced takes what PUB_TRACE sends for one message apart. The message has at
// least one byte. An error is an *Error.
func SplitTraced(body []byte) (traceID uint64, message []byte, err error) {
	if len(body) <= traceIDLen {
		return 0, nil, Errorf(BadBody, "invalid body size %d with trace id enabled", len(body))
	}
	return binary.BigEndian.Uint64(body), body[traceIDLen:], nil
}

// SplitExtended takes what PUB_EXT sends for one message apart. The message has at
// least one byte, the header none or more. An error is an *Error.
func SplitExtended(body []byte) (header, message []byte, err error) {
	if len(body) <= headerLengthLen {
		return nil, nil, Errorf(BadBody, "invalid body size %d with ext json header enabled", len(body))
	}
	end := headerLengthLen + int(binary.BigEndian.Uint16(body))
	if len(body) <= end {
		return nil, nil, Errorf(BadBody, "invalid body size %d in ext json header content length", len(body))
	}
	return body[headerLengthLen:end:end], body[end:], nil
}

// Traced is what the publishes of the extensions answer of a stored message.
type Traced struct {
	ID       seq.WireID
	TraceID  uint64
	Position int64 // of the message in its partition's log, in bytes
	RawSize  int64 // bytes that it takes there
}

// tracedLen is the length of the data of an answer with a Traced:
//
//	+----+-------+-------------+-------------+-------------+
//	| OK | id: 8 | trace id: 8 | position: 8 | raw size: 4 |
//	+----+-------+-------------+-------------+-------------+
const tracedLen = len(OK) + 8 + traceIDLen + 8 + 4

// AppendTraced appends the response frame of a Traced to dst.
func AppendTraced(dst []byte, t Traced) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(4+tracedLen))
	dst = binary.BigEndian.AppendUint32(dst, uint32(FrameResponse))
	dst = append(dst, OK...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.ID))
	dst = binary.BigEndian.AppendUint64(dst, t.TraceID)
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.Position)) //nolint:gosec // not negative
	return binary.BigEndian.AppendUint32(dst, uint32(min(t.RawSize, 1<<32-1)))
}

// ParseTraced reads the data of a response frame with a Traced; false: it is another.
func ParseTraced(data []byte) (Traced, bool) {
	if len(data) != tracedLen || string(data[:len(OK)]) != OK {
		return Traced{}, false
	}
	rest := data[len(OK):]
	return Traced{
		ID: seq.WireID(binary.BigEndian.Uint64(rest)), TraceID: binary.BigEndian.Uint64(rest[8:]),
		Position: int64(binary.BigEndian.Uint64(rest[16:])), //nolint:gosec // the bits of a signed number
		RawSize:  int64(binary.BigEndian.Uint32(rest[24:])),
	}, true
}
