package nsq

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/brokerd/brokerd/pkg/seq"
)

// Magic is the first data that a client sends.
const Magic = "  V2"

// FrameType is the type of a frame.
type FrameType uint32

// The frame types.
const (
	FrameResponse FrameType = 0
	FrameError    FrameType = 1
	FrameMessage  FrameType = 2
)

// The data of responses without content of their own.
const (
	OK        = "OK"
	Heartbeat = "_heartbeat_"
	CloseWait = "CLOSE_WAIT"
)

// frameHeaderLen is the length of a frame's size and type. A frame is
//
//	+---------+---------+------------------+
//	| size: 4 | type: 4 | data: size-4     |   big endian
//	+---------+---------+------------------+
//
// with a size that counts the type and the data.
const frameHeaderLen = 8

// messageHeaderLen is the length of the fields before the body in the data of a message frame:
//
//	+--------------+-------------+--------+------+
//	| timestamp: 8 | attempts: 2 | id: 16 | body |
//	+--------------+-------------+--------+------+
const messageHeaderLen = 8 + 2 + seq.HexLen

// messageOverhead is the size of a message frame with an empty body.
const messageOverhead = frameHeaderLen + messageHeaderLen

// AppendFrame appends a frame of the data to dst.
func AppendFrame[D []byte | string](dst []byte, t FrameType, data D) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(data)+4))
	dst = binary.BigEndian.AppendUint32(dst, uint32(t))
	return append(dst, data...)
}

// Errors of reading frames.
var (
	ErrFrameSize    = errors.New("frame size out of range")
	errShortMessage = errors.New("message frame too short")
)

// FrameReader reads frames, for clients. It reads no byte of its source beyond the frame that it
// returns.
type FrameReader struct {
	r       io.Reader
	maxData int
	head    [frameHeaderLen]byte
	buf     []byte
}

// NewFrameReader returns a reader of frames with at most maxData bytes of data.
func NewFrameReader(r io.Reader, maxData int) *FrameReader {
	return &FrameReader{r: r, maxData: maxData}
}

// Next reads a frame. A frame with too much data fails with ErrFrameSize. The data is valid until
// the next call; its memory grows with the bytes that arrive. io.EOF means an end between two
// frames.
func (f *FrameReader) Next() (FrameType, []byte, error) {
	if _, err := io.ReadFull(f.r, f.head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(f.head[:4])
	if size < 4 || int64(size)-4 > int64(f.maxData) {
		return 0, nil, fmt.Errorf("%w: a frame of %d bytes", ErrFrameSize, size)
	}
	data, err := f.read(int(size) - 4)
	if err != nil {
		return 0, nil, fmt.Errorf("frame data: %w", noEOF(err))
	}
	return FrameType(binary.BigEndian.Uint32(f.head[4:])), data, nil
}

// read fills the buffer with n bytes, growing it step by step.
func (f *FrameReader) read(n int) ([]byte, error) {
	const step = 1 << 20
	for have := 0; have < n; {
		want := min(n, have+step)
		if cap(f.buf) < want {
			grown := make([]byte, want, max(want, min(2*cap(f.buf), n)))
			copy(grown, f.buf[:have])
			f.buf = grown
		}
		f.buf = f.buf[:want]
		if _, err := io.ReadFull(f.r, f.buf[have:]); err != nil {
			return nil, err
		}
		have = want
	}
	return f.buf[:n], nil
}

// Message is the content of a message frame.
type Message struct {
	Timestamp int64 // of publishing, ns since 1970
	Attempts  uint16
	ID        [seq.HexLen]byte // opaque to clients
	Body      []byte
}

// Size returns the size of the message's frame.
func (m *Message) Size() int { return messageOverhead + len(m.Body) }

// AppendMessage appends a message frame to dst. The timestamp is in ns since 1970; the id is
// written as 16 hexadecimal digits.
func AppendMessage(dst []byte, timestamp int64, attempts uint16, id seq.WireID, body []byte) []byte {
	var head [messageOverhead]byte
	binary.BigEndian.PutUint32(head[0:], uint32(4+messageHeaderLen+len(body)))
	binary.BigEndian.PutUint32(head[4:], uint32(FrameMessage))
	binary.BigEndian.PutUint64(head[8:], uint64(timestamp))
	binary.BigEndian.PutUint16(head[16:], attempts)
	id.PutHex((*[seq.HexLen]byte)(head[18:]))
	dst = append(dst, head[:]...)
	return append(dst, body...)
}

// ParseMessage reads the data of a message frame. The body aliases data.
func ParseMessage(data []byte) (Message, error) {
	if len(data) < messageHeaderLen {
		return Message{}, errShortMessage
	}
	return Message{
		Timestamp: int64(binary.BigEndian.Uint64(data)),
		Attempts:  binary.BigEndian.Uint16(data[8:]),
		ID:        [seq.HexLen]byte(data[10:messageHeaderLen]),
		Body:      data[messageHeaderLen:],
	}, nil
}
