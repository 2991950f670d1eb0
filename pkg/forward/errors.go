package forward

import (
	"errors"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/peer"
)

// A peer error's code is the number of a failure.Kind with the fate above it. Code 0 is an error
// that did not come from ToRemote: its outcome is uncertain, and it has no Kind.
const (
	fateShift = 14
	maxNumber = 1<<fateShift - 1
)

// ToRemote returns the form in which err is sent: its text, its fate, and the number of its Kind.
func ToRemote(err error) *peer.RemoteError {
	code := uint16(fate.Of(err)) << fateShift
	if k := failure.Find(err); k != nil {
		code |= k.Number & maxNumber
	}
	return &peer.RemoteError{Code: code, Text: err.Error()}
}

// FromRemote returns the error that another node passed to ToRemote: one with the same text, fate
// and Kind (errors.Is). It returns errors that were not sent unchanged.
func FromRemote(err error) error {
	remote, ok := errors.AsType[*peer.RemoteError](err)
	if !ok {
		return err
	}
	e := &travelled{text: remote.Text, fate: fate.Fate(remote.Code >> fateShift), kind: failure.Numbered(remote.Code & maxNumber), remote: remote}
	if e.fate > fate.Corrupt {
		e.fate = fate.Uncertain // a fate that this version does not know
	}
	return e
}

// travelled is an error that another node sent.
type travelled struct {
	text   string
	fate   fate.Fate
	kind   *failure.Kind // nil: none that this version knows
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
