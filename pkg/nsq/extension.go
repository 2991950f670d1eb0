package nsq

import (
	"encoding/binary"

	"github.com/brokerd/brokerd/pkg/failure"
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

// SplitTraced splits the body of a PUB_TRACE, or a message of an MPUB_TRACE. The message has at
// least one byte. An error is an *Error.
func SplitTraced(body []byte) (traceID uint64, message []byte, err error) {
	if len(body) <= traceIDLen {
		return 0, nil, Errorf(failure.BadBody, "invalid body size %d with trace id enabled", len(body))
	}
	return binary.BigEndian.Uint64(body), body[traceIDLen:], nil
}

// SplitExtended splits the body of a PUB_EXT, or a message of an MPUB_EXT. The message has at
// least one byte; the header may be empty. An error is an *Error.
func SplitExtended(body []byte) (header, message []byte, err error) {
	if len(body) <= headerLengthLen {
		return nil, nil, Errorf(failure.BadBody, "invalid body size %d with ext json header enabled", len(body))
	}
	end := headerLengthLen + int(binary.BigEndian.Uint16(body))
	if len(body) <= end {
		return nil, nil, Errorf(failure.BadBody, "invalid body size %d in ext json header content length", len(body))
	}
	return body[headerLengthLen:end:end], body[end:], nil
}

// Traced is the answer to a publish of the extensions about a stored message.
type Traced struct {
	ID       seq.WireID
	TraceID  uint64
	Position int64 // of the message in its partition's log, in bytes
	RawSize  int64 // size of its record there, in bytes
}

// tracedLen is the length of the data of an answer with a Traced:
//
//	+----+-------+-------------+-------------+-------------+
//	| OK | id: 8 | trace id: 8 | position: 8 | raw size: 4 |
//	+----+-------+-------------+-------------+-------------+
const tracedLen = len(OK) + 8 + traceIDLen + 8 + 4

// AppendFrame appends the response frame of the answer to dst.
func (t *Traced) AppendFrame(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(4+tracedLen))
	dst = binary.BigEndian.AppendUint32(dst, uint32(FrameResponse))
	dst = append(dst, OK...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.ID))
	dst = binary.BigEndian.AppendUint64(dst, t.TraceID)
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.Position)) //nolint:gosec // not negative
	return binary.BigEndian.AppendUint32(dst, uint32(min(t.RawSize, 1<<32-1)))
}

// Form is the form in which a consumer receives messages. The zero Form is that of standard
// clients. With any other, the id is binary (8 bytes and the trace id), and the following fields
// precede the body:
//
//	Ext      +------------+   or   +------------+-----------+--------+
//	         | version: 1 |        | version: 1 | length: 2 | header |   version 0: no header
//	         +------------+        +------------+-----------+--------+
//	Details  +-------------+-------------+
//	         | position: 8 | raw size: 4 |
//	         +-------------+-------------+
type Form struct {
	Binary  bool // also with the others
	Ext     bool // with headers
	Details bool // with positions and sizes
}

// Versions of the header field.
const (
	extNone = 0
	extJSON = 4
)

// detailsLen is the length of the details.
const detailsLen = 8 + 4

// Overhead is an upper bound of the size of a message frame with an empty body and a header of n
// bytes.
func (f Form) Overhead(n int) int { return messageOverhead + 1 + headerLengthLen + n + detailsLen }

// ID reads the id of a message as a consumer of the form received it and sends it back. Every text
// is an id of the binary form.
func (f Form) ID(text [seq.HexLen]byte) (seq.WireID, error) {
	if f.Binary {
		return seq.WireID(binary.BigEndian.Uint64(text[:])), nil
	}
	return seq.ParseID(text[:])
}

// Extended is a message for consumers that know the extensions.
type Extended struct {
	Traced
	Timestamp int64 // of publishing, ns since 1970
	Attempts  uint16
	Header    []byte // at most 65534 bytes; empty: none
	Body      []byte
}

// AppendExtended appends a message frame of the form to dst.
func (f Form) AppendExtended(dst []byte, m *Extended) []byte {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(FrameMessage))
	dst = binary.BigEndian.AppendUint64(dst, uint64(m.Timestamp)) //nolint:gosec // the bits of a signed number
	dst = binary.BigEndian.AppendUint16(dst, m.Attempts)
	dst = binary.BigEndian.AppendUint64(dst, uint64(m.ID))
	dst = binary.BigEndian.AppendUint64(dst, m.TraceID)
	switch {
	case !f.Ext:
	case len(m.Header) == 0:
		dst = append(dst, extNone)
	default:
		dst = binary.BigEndian.AppendUint16(append(dst, extJSON), uint16(len(m.Header))) //nolint:gosec // see Header
		dst = append(dst, m.Header...)
	}
	if f.Details {
		dst = binary.BigEndian.AppendUint64(dst, uint64(m.Position)) //nolint:gosec // not negative
		dst = binary.BigEndian.AppendUint32(dst, uint32(m.RawSize))  //nolint:gosec // of one record
	}
	dst = append(dst, m.Body...)
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4)) //nolint:gosec // a frame is smaller
	return dst
}
