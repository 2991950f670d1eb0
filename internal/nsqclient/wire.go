package nsqclient

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/brokerd/brokerd/pkg/fate"
)

const (
	magic = "  V2"

	frameResponse = 0
	frameError    = 1
	frameMessage  = 2

	heartbeat = "_heartbeat_"
	closeWait = "CLOSE_WAIT"
	okAnswer  = "OK"

	// maxFrameBytes is the largest frame that is read: over the largest message
	// that a broker can be told to accept.
	maxFrameBytes = 64 << 20

	idLen         = 16
	messageHeader = 8 + 2 + idLen
)

// AnyPartition leaves the partition to the broker.
const AnyPartition = -1

// ID names a message to the connection that received it.
type ID [idLen]byte

// String returns the id as the broker wrote it.
func (id ID) String() string { return string(id[:]) }

// Message is a message that the broker delivered. Body is valid only during the
// call that hands it over.
type Message struct {
	ID        ID
	Timestamp time.Time // of publishing
	Attempts  uint16    // deliveries, this one included
	Body      []byte
}

// Error is an error frame.
type Error struct {
	Code string // such as E_BAD_TOPIC
	Text string // what follows it
}

// Error returns the frame as the broker sent it.
func (e *Error) Error() string { return strings.TrimSpace(e.Code + " " + e.Text) }

// Fate tells whether the command was refused, or may have been carried out.
func (e *Error) Fate() fate.Fate {
	switch e.Code {
	case "E_PUB_FAILED", "E_MPUB_FAILED", "E_DPUB_FAILED":
		return fate.Uncertain
	}
	return fate.Refused
}

// ErrProtocol is what the peer is told by us to be: no NSQ broker.
var ErrProtocol = errors.New("not the NSQ protocol")

// frame is one frame from the broker. Its data is valid until the next read.
type frame struct {
	kind uint32
	data []byte
}

// frameReader reads frames into one buffer that it uses again.
type frameReader struct {
	r   *bufio.Reader
	buf []byte
}

// next reads a frame. Memory grows with the bytes that arrive, not with the
// size that the peer declares.
func (f *frameReader) next() (frame, error) {
	var head [8]byte
	if _, err := io.ReadFull(f.r, head[:]); err != nil {
		return frame{}, err
	}
	size := binary.BigEndian.Uint32(head[:4])
	if string(head[:4]) == "HTTP" {
		return frame{}, fmt.Errorf("%w: that is an HTTP address", ErrProtocol)
	}
	if size < 4 || size > maxFrameBytes {
		return frame{}, fmt.Errorf("%w: a frame of %d bytes", ErrProtocol, size)
	}
	n := int(size) - 4
	if err := f.fill(n); err != nil {
		return frame{}, err
	}
	return frame{binary.BigEndian.Uint32(head[4:]), f.buf[:n]}, nil
}

// fill reads n bytes to the start of the buffer, growing it step by step.
func (f *frameReader) fill(n int) error {
	const step = 1 << 20
	for have := 0; have < n; {
		want := min(n, have+step)
		if cap(f.buf) < want {
			grown := make([]byte, want, max(want, min(2*cap(f.buf), n)))
			copy(grown, f.buf[:have])
			f.buf = grown
		}
		f.buf = f.buf[:max(want, len(f.buf))]
		if _, err := io.ReadFull(f.r, f.buf[have:want]); err != nil {
			return err
		}
		have = want
	}
	return nil
}

// asError returns the error of an error frame.
func (f frame) asError() *Error {
	code, text, _ := strings.Cut(string(f.data), " ")
	return &Error{code, text}
}

// asMessage takes a message frame apart.
func (f frame) asMessage() (Message, error) {
	if len(f.data) < messageHeader {
		return Message{}, fmt.Errorf("%w: a message frame of %d bytes", ErrProtocol, len(f.data))
	}
	m := Message{
		Timestamp: time.Unix(0, int64(binary.BigEndian.Uint64(f.data))),
		Attempts:  binary.BigEndian.Uint16(f.data[8:]),
		Body:      f.data[messageHeader:],
	}
	copy(m.ID[:], f.data[10:])
	return m, nil
}

// identify is the body of IDENTIFY.
type identify struct {
	ClientID           string `json:"client_id"`
	Hostname           string `json:"hostname"`
	UserAgent          string `json:"user_agent"`
	FeatureNegotiation bool   `json:"feature_negotiation"`
	HeartbeatInterval  int64  `json:"heartbeat_interval,omitempty"` // ms
	MsgTimeout         int64  `json:"msg_timeout,omitempty"`        // ms
}

// identified is the answer to IDENTIFY, as far as we use it.
type identified struct {
	MaxRdyCount  int    `json:"max_rdy_count"`
	Version      string `json:"version"`
	AuthRequired bool   `json:"auth_required"`
}

func appendBody(dst, body []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(body)))
	return append(dst, body...)
}

func appendIdentify(dst []byte, id identify) []byte {
	body, err := json.Marshal(id)
	if err != nil {
		panic("BUG: strings and numbers do not become JSON: " + err.Error())
	}
	return appendBody(append(dst, "IDENTIFY\n"...), body)
}

// appendPublish writes PUB, MPUB or DPUB: a delay is for one message.
func appendPublish(dst []byte, p Publish) []byte {
	name := "PUB "
	switch {
	case p.Delay > 0:
		name = "DPUB "
	case len(p.Bodies) > 1:
		name = "MPUB "
	}
	dst = append(append(dst, name...), p.Topic...)
	if p.Delay > 0 {
		dst = strconv.AppendInt(append(dst, ' '), p.Delay.Milliseconds(), 10)
	} else {
		dst = appendPartition(dst, p.Partition)
	}
	dst = append(dst, '\n')
	if len(p.Bodies) == 1 {
		return appendBody(dst, p.Bodies[0])
	}
	size := 4
	for _, b := range p.Bodies {
		size += 4 + len(b)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(size))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(p.Bodies)))
	for _, b := range p.Bodies {
		dst = appendBody(dst, b)
	}
	return dst
}

func appendPartition(dst []byte, partition int) []byte {
	if partition == AnyPartition {
		return dst
	}
	return strconv.AppendInt(append(dst, ' '), int64(partition), 10)
}
