package nsq

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/brokerd/brokerd/pkg/seq"
)

// Magic is what a client sends first.
const Magic = "  V2"

// FrameType says what a frame carries.
type FrameType uint32

// The frame types.
const (
	FrameResponse FrameType = 0
	FrameError    FrameType = 1
	FrameMessage  FrameType = 2
)

// The data of the responses that have no content of their own.
const (
	OK        = "OK"
	Heartbeat = "_heartbeat_"
	CloseWait = "CLOSE_WAIT"
)

// FrameHeaderLen is the length of a frame's size and type. A frame is
//
//	+---------+---------+------------------+
//	| size: 4 | type: 4 | data: size-4     |   big endian
//	+---------+---------+------------------+
//
// with a size that counts the type and the data.
const FrameHeaderLen = 8

// messageHeaderLen is what precedes the body in the data of a message frame:
//
//	+--------------+-------------+--------+------+
//	| timestamp: 8 | attempts: 2 | id: 16 | body |
//	+--------------+-------------+--------+------+
const messageHeaderLen = 8 + 2 + seq.HexLen

// MessageOverhead is the size of a message frame with an empty body.
const MessageOverhead = FrameHeaderLen + messageHeaderLen

// AppendFrame appends a frame of the data to dst.
func AppendFrame[D []byte | string](dst []byte, t FrameType, data D) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(data)+4))
	dst = binary.BigEndian.AppendUint32(dst, uint32(t))
	return append(dst, data...)
}

// AppendMessage appends a message frame to dst. The timestamp is in ns since
// 1970; the id goes out as 16 hexadecimal digits.
func AppendMessage(dst []byte, timestamp int64, attempts uint16, id seq.MessageID, body []byte) []byte {
	var head [MessageOverhead]byte
	binary.BigEndian.PutUint32(head[0:], uint32(4+messageHeaderLen+len(body)))
	binary.BigEndian.PutUint32(head[4:], uint32(FrameMessage))
	binary.BigEndian.PutUint64(head[8:], uint64(timestamp))
	binary.BigEndian.PutUint16(head[16:], attempts)
	id.PutHex((*[seq.HexLen]byte)(head[18:]))
	dst = append(dst, head[:]...)
	return append(dst, body...)
}

// Errors of reading frames.
var (
	ErrFrameSize    = errors.New("frame size out of range")
	ErrShortMessage = errors.New("message frame too short")
)

// ReadFrame reads one frame, for clients. A frame whose data is longer than max
// bytes fails with ErrFrameSize. The data is the caller's.
func ReadFrame(r io.Reader, maxData int) (FrameType, []byte, error) {
	var head [FrameHeaderLen]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	size := int64(binary.BigEndian.Uint32(head[:4])) - 4
	if size < 0 || size > int64(maxData) {
		return 0, nil, fmt.Errorf("%w: %d bytes", ErrFrameSize, size)
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(r, data); err != nil {
		return 0, nil, fmt.Errorf("frame data: %w", err)
	}
	return FrameType(binary.BigEndian.Uint32(head[4:])), data, nil
}

// Message is the content of a message frame.
type Message struct {
	Timestamp int64 // of publishing, ns since 1970
	Attempts  uint16
	ID        [seq.HexLen]byte // opaque to clients
	Body      []byte
}

// ParseMessage reads the data of a message frame. The body aliases data.
func ParseMessage(data []byte) (Message, error) {
	if len(data) < messageHeaderLen {
		return Message{}, ErrShortMessage
	}
	return Message{
		Timestamp: int64(binary.BigEndian.Uint64(data)),
		Attempts:  binary.BigEndian.Uint16(data[8:]),
		ID:        [seq.HexLen]byte(data[10:messageHeaderLen]),
		Body:      data[messageHeaderLen:],
	}, nil
}
