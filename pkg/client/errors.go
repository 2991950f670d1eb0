package client

import (
	"errors"
	"fmt"
	"strings"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
)

// The fate of a failed publish. Every publish error is one of the two; test with errors.Is.
var (
	// ErrRefused: nothing was published. A retry creates no duplicate.
	ErrRefused = errors.New("refused")
	// ErrUncertain: the messages may have been published, or may still be. A retry may create
	// duplicates.
	ErrUncertain = errors.New("outcome unknown")
)

// Causes of errors; test with errors.Is.
var (
	// ErrClosed: the client, the consumer or the connection was closed.
	ErrClosed = errors.New("closed")
	// ErrUnreachable: no connection to any broker.
	ErrUnreachable = errors.New("no broker is reachable")
	// ErrConnectionLost: the connection ended before the broker answered.
	ErrConnectionLost = errors.New("connection lost before the response")
	// ErrStalled: the broker sent or accepted nothing for two heartbeats.
	ErrStalled = errors.New("broker stalled")
	// ErrProtocol: the peer does not speak the NSQ protocol.
	ErrProtocol = errors.New("not an NSQ endpoint")
	// ErrAnswered: the message was already finished or requeued.
	ErrAnswered = errors.New("message already answered")
)

// ServerError is a broker's error response; test with errors.As.
type ServerError struct {
	Code string // such as E_BAD_TOPIC
	Text string // the rest of the response
}

// Error returns the broker's message.
func (e *ServerError) Error() string { return strings.TrimSpace(e.Code + " " + e.Text) }

// PublishError is a failed publish. It wraps its cause, and ErrRefused or ErrUncertain.
type PublishError struct {
	Topic    string
	Messages int
	Attempts int   // number of attempts; 0: the messages were never sent
	Fate     error // ErrRefused or ErrUncertain
	Err      error // the cause
}

// Error reports what failed, the fate of the messages, and the cause.
func (e *PublishError) Error() string {
	what := "message"
	if e.Messages != 1 {
		what = fmt.Sprintf("%d messages", e.Messages)
	}
	return fmt.Sprintf("publish %s to %s: %v: %v", what, e.Topic, e.Fate, e.Err)
}

// Unwrap returns the fate and the cause.
func (e *PublishError) Unwrap() []error { return []error{e.Fate, e.Err} }

// serverError reads an error frame.
func serverError(data []byte) *ServerError {
	code, text, _ := strings.Cut(string(data), " ")
	return &ServerError{code, text}
}

// verdict is the meaning of the end of one attempt to publish.
type verdict struct {
	refused bool // nothing was published
	again   bool // another attempt may succeed
}

// judge classifies an error of an attempt.
func judge(err error) verdict {
	var said *ServerError
	switch {
	case errors.As(err, &said):
		return judgeServer(said)
	case errors.Is(err, errUnsent), errors.Is(err, ErrUnreachable):
		return verdict{refused: true, again: true}
	case errors.Is(err, errTooLarge):
		return verdict{refused: true}
	}
	return verdict{again: true} // the connection was lost together with the sent commands
}

func judgeServer(e *ServerError) verdict {
	if e.Code == tooMuchWaiting {
		return verdict{refused: true, again: true}
	}
	code, f := failure.Read(e.Code, e.Text)
	return verdict{refused: f == fate.Refused, again: code.Retryable()}
}

// tooMuchWaiting is the code with which other brokers with the extensions refuse publishes.
const tooMuchWaiting = "E_PUB_TOO_MUCH_WAITING"

// Errors that are always wrapped before they are returned.
var (
	errUnsent   = errors.New("connection closed before the command was sent")
	errTooLarge = errors.New("message exceeds the bytes that may be in flight")
)

// Errors of messages that every broker refuses.
var (
	errEmpty = errors.New("message is empty")
	errBatch = errors.New("a batch cannot be combined with a body or a delay: the protocol has no such command")
)

// maxName is the maximum length of topic and channel names.
const maxName = 64

// ephemeral is the suffix of ephemeral topics and channels.
const ephemeral = "#ephemeral"

// validName reports whether a name is valid for a topic or a channel.
func validName(name string) bool {
	if len(name) > maxName {
		return false
	}
	name = strings.TrimSuffix(name, ephemeral)
	for i := range len(name) {
		switch b := name[i]; {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9', b == '.', b == '_', b == '-':
		default:
			return false
		}
	}
	return name != ""
}
