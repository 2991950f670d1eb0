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

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/nsq"
	"github.com/brokerd/brokerd/pkg/seq"
)

// maxFrameBytes is the largest frame that is read: the largest message that a
// broker can be set to accept, its header of up to 64 KiB, and what frames it.
const maxFrameBytes = limit.Message + 128<<10

// AnyPartition leaves the partition to the broker.
const AnyPartition = -1

// ID names a message to the connection that received it.
type ID [seq.HexLen]byte

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

// Read returns the code of /v1 that means the same, and whether the command was refused, or may
// have been carried out.
func (e *Error) Read() (failure.Code, fate.Fate) { return failure.Read(e.Code, e.Text) }

// Fate reports whether the command was refused, or may have been carried out.
func (e *Error) Fate() fate.Fate { _, f := e.Read(); return f }

// errProtocol is what the peer is told by us to be: no NSQ broker.
var errProtocol = errors.New("not an NSQ endpoint")

// frame is one frame from the broker. Its data is valid until the next read.
type frame struct {
	kind nsq.FrameType
	data []byte
}

// frameReader reads the broker's frames.
type frameReader struct {
	in     *bufio.Reader
	frames *nsq.FrameReader
}

func newFrameReader(r io.Reader) frameReader {
	const readBuffer = 256 << 10
	in := bufio.NewReaderSize(r, readBuffer)
	return frameReader{in, nsq.NewFrameReader(in, maxFrameBytes)}
}

// next reads a frame.
func (f frameReader) next() (frame, error) {
	const http = "HTTP"
	if start, err := f.in.Peek(len(http)); err == nil && string(start) == http {
		return frame{}, fmt.Errorf("%w: this is an HTTP address", errProtocol)
	}
	kind, data, err := f.frames.Next()
	if errors.Is(err, nsq.ErrFrameSize) {
		err = fmt.Errorf("%w: %w", errProtocol, err)
	}
	return frame{kind, data}, err
}

// asError returns the error of an error frame.
func (f frame) asError() *Error {
	code, text, _ := strings.Cut(string(f.data), " ")
	return &Error{code, text}
}

// asMessage takes a message frame apart.
func (f frame) asMessage() (Message, error) {
	m, err := nsq.ParseMessage(f.data)
	if err != nil {
		return Message{}, fmt.Errorf("%w: %w", errProtocol, err)
	}
	return Message{ID: m.ID, Timestamp: time.Unix(0, m.Timestamp), Attempts: m.Attempts, Body: m.Body}, nil
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
		panic("BUG: cannot encode strings and numbers as JSON: " + err.Error())
	}
	return appendBody(append(dst, "IDENTIFY\n"...), body)
}

func appendPartition(dst []byte, partition int) []byte {
	if partition == AnyPartition {
		return dst
	}
	return strconv.AppendInt(append(dst, ' '), int64(partition), 10)
}
