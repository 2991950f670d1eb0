package peer

import (
	"errors"
	"fmt"

	"github.com/brokerd/brokerd/pkg/fate"
)

// Errors with which a call may end, besides a *RemoteError and an *UnreachableError.
var (
	// ErrDisconnected: the connection broke after it had accepted the call. It is unknown whether
	// the call was carried out.
	ErrDisconnected = fate.Mark(errors.New("connection to the node lost"), fate.Uncertain)
	// errBusy: MaxQueuedBytes or MaxCalls are waiting. The call was not sent.
	errBusy = fate.Refuse("send queue to the node is full")
	// ErrTooBig: the payload is larger than MaxFrame. The call was not sent.
	ErrTooBig = fate.Refuse("cluster call too large for a frame")
	// errSessionOver: the session for which the call was meant has ended or is not up. The call was
	// not sent.
	errSessionOver = fate.Refuse("session with the node ended")
	// errClosed: the Peer or its Transport is closed. The call was not sent.
	errClosed = fate.Refuse("cluster transport is closed")
)

// Errors with which a connection may break. They are wrapped with details and reach Event.Err.
var (
	// errHello: the first bytes that arrived are no hello.
	errHello = errors.New("invalid hello")
	// errFrame: a frame is damaged or breaks the protocol.
	errFrame = errors.New("malformed frame")
	// errChecksum: a frame's checksum does not match. It is an errFrame.
	errChecksum = fmt.Errorf("%w: checksum mismatch", errFrame)
	// errSlow: the other side does not read its answers.
	errSlow = errors.New("peer does not read responses")
)

// errNoRoots: with the system's authorities anyone could act as a node.
var errNoRoots = errors.New("cluster TLS requires a dedicated certificate authority")

// RemoteError is an error with which the other node's Handler answered. Caller and handler agree on
// the meaning of Code.
type RemoteError struct {
	Code uint16
	Text string // at most maxErrorText bytes are sent
}

// Error returns the text and the code.
func (e *RemoteError) Error() string { return fmt.Sprintf("%s (code %d)", e.Text, e.Code) }

// UnreachableError reports that no connection to a node could be made. The call was not sent.
// errors.Is finds the cause: syscall.ECONNREFUSED, a *RefusedError, a timeout.
type UnreachableError struct {
	Node    Node // "" if only the address was known
	Address string
	Err     error
}

// Error names the node, the address and the cause.
func (e *UnreachableError) Error() string {
	if e.Node == "" {
		return fmt.Sprintf("cannot reach %s: %v", e.Address, e.Err)
	}
	return fmt.Sprintf("cannot reach node %s at %s: %v", e.Node, e.Address, e.Err)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// Fate is Refused: the call was not sent.
func (e *UnreachableError) Fate() fate.Fate { return fate.Refused }

// RefusedError is the refusal of a connection between two nodes, with the reason.
type RefusedError struct {
	Reason Reason
	Text   string // details for people
	Local  bool   // this side refused; otherwise the other one did
}

// Error names the side, the reason and the details.
func (e *RefusedError) Error() string {
	who := "refused by the remote node"
	if e.Local {
		who = "refused"
	}
	if e.Text == "" {
		return fmt.Sprintf("%s: %s", who, e.Reason)
	}
	return fmt.Sprintf("%s: %s: %s", who, e.Reason, e.Text)
}

// Fate is Refused: nothing was sent.
func (e *RefusedError) Fate() fate.Fate { return fate.Refused }
