package forward

import (
	"errors"

	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/peer"
)

// Code names a sentinel on the wire. Both nodes must mean the same by it, so one
// that was given out is never given to another. Code 0 is no sentinel that the
// table has.
type Code uint16

// A peer's code is a Code with the fate above it. 0 is an error that did not come
// from a Table: uncertain, of no sentinel.
const (
	fateShift = 14
	maxCode   = 1<<fateShift - 1
)

// Sentinel pairs a code with what errors.Is asks for.
type Sentinel struct {
	Code Code
	Err  error
}

// Table carries errors between nodes. Where an error is several of the
// sentinels, or a code stands for several, the first one counts.
type Table []Sentinel

// ToRemote returns err as it travels: its text, its fate, and the code of the
// sentinel that it is.
func (t Table) ToRemote(err error) *peer.RemoteError {
	code := uint16(fate.Of(err)) << fateShift
	for _, s := range t {
		if errors.Is(err, s.Err) {
			code |= uint16(s.Code) & maxCode
			break
		}
	}
	return &peer.RemoteError{Code: code, Text: err.Error()}
}

// FromRemote returns what another node's ToRemote was given: an error of the
// same text and fate, which errors.Is finds its sentinel in. Errors that did
// not travel are returned as they are.
func (t Table) FromRemote(err error) error {
	remote, ok := errors.AsType[*peer.RemoteError](err)
	if !ok {
		return err
	}
	e := &travelled{text: remote.Text, fate: fate.Fate(remote.Code >> fateShift), remote: remote}
	if e.fate > fate.Corrupt {
		e.fate = fate.Uncertain // one that is not known here
	}
	for _, s := range t {
		if code := Code(remote.Code & maxCode); code == s.Code && code != 0 {
			e.sentinel = s.Err
			break
		}
	}
	return e
}

// travelled is an error of another node.
type travelled struct {
	text     string
	fate     fate.Fate
	sentinel error // nil: none that is known
	remote   *peer.RemoteError
}

func (e *travelled) Error() string   { return e.text }
func (e *travelled) Fate() fate.Fate { return e.fate }
func (e *travelled) Unwrap() []error {
	if e.sentinel == nil {
		return []error{e.remote}
	}
	return []error{e.sentinel, e.remote}
}
