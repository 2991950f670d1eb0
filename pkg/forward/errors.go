package forward

import (
	"errors"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/peer"
)

// A peer's code is the number of a failure.Kind with the fate above it. 0 is an error that did
// not come from ToRemote: uncertain, of no Kind.
const (
	fateShift = 14
	maxNumber = 1<<fateShift - 1
)

// ToRemote returns err as it travels: its text, its fate, and the number of the
// Kind that it is.
func ToRemote(err error) *peer.RemoteError {
	code := uint16(fate.Of(err)) << fateShift
	if k := failure.Find(err); k != nil {
		code |= k.Number & maxNumber
	}
	return &peer.RemoteError{Code: code, Text: err.Error()}
}

// FromRemote returns what another node's ToRemote was given: an error of the
// same text and fate, which errors.Is finds its Kind in. Errors that did
// not travel are returned as they are.
func FromRemote(err error) error {
	remote, ok := errors.AsType[*peer.RemoteError](err)
	if !ok {
		return err
	}
	e := &travelled{text: remote.Text, fate: fate.Fate(remote.Code >> fateShift), kind: failure.Numbered(remote.Code & maxNumber), remote: remote}
	if e.fate > fate.Corrupt {
		e.fate = fate.Uncertain // one that is not known here
	}
	return e
}

// travelled is an error of another node.
type travelled struct {
	text   string
	fate   fate.Fate
	kind   *failure.Kind // nil: none that is known
	remote *peer.RemoteError
}

func (e *travelled) Error() string   { return e.text }
func (e *travelled) Fate() fate.Fate { return e.fate }
func (e *travelled) Unwrap() []error {
	if e.kind == nil {
		return []error{e.remote}
	}
	return []error{e.kind, e.remote}
}
