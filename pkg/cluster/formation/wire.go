package formation

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/level"
)

// request is what one node asks of another. Fields of newer versions are passed
// over.
type request struct {
	Kind    requestKind `json:"kind"`
	From    identity    `json:"from"`
	Cluster string      `json:"cluster,omitempty"` // of the sender; "": none
	// Of a node that asks to be a member.
	Fresh   bool        `json:"fresh,omitempty"`
	Applied uint64      `json:"applied,omitempty"`
	Levels  level.Range `json:"levels,omitzero"`   // feature levels that its program supports
	Relayed bool        `json:"relayed,omitempty"` // by a member: it is not sent on again
}

type requestKind string

const (
	askWho     requestKind = "who"
	askPromise requestKind = "promise" // to let the sender found the cluster
	askBond    requestKind = "bind"
	askRelease requestKind = "release"
	askJoin    requestKind = "join"
)

type answer struct {
	seen
	Granted bool   `json:"granted,omitempty"`
	Code    string `json:"code,omitempty"` // why not; "": try again
	Reason  string `json:"reason,omitempty"`
}

// ErrSelf is for Options.Call to say that the address is this node's own.
var ErrSelf = fate.Refuse("address is this node's own")

var errNotGranted = fate.Refuse("not granted")

// codes names the refusals that trying again does not help.
var codes = []struct {
	code string
	err  error
}{
	{"node-id-taken", ErrNodeIDTaken},
	{"other-cluster", ErrOtherCluster},
	{"level", failure.FeatureLevel},
	{"removed", failure.Removed},
	{"address-taken", ErrAddressTaken},
}

// refuse fills in why something is not granted.
func (a *answer) refuse(err error) {
	a.Granted, a.Code, a.Reason = false, "", err.Error()
	for _, known := range codes {
		if errors.Is(err, known.err) {
			a.Code = known.code
		}
	}
}

// err returns why something was not granted, or nil.
func (a *answer) err() error {
	for _, known := range codes {
		if a.Code == known.code {
			return &refusedError{fmt.Sprintf("%s (reported by %s)", cmp.Or(a.Reason, known.err.Error()), a.Node), known.err}
		}
	}
	if !a.Granted {
		return fmt.Errorf("%w: %s (reported by %s)", errNotGranted, a.Reason, a.Node)
	}
	return nil
}

// refusedError is a refusal of another node, in its words.
type refusedError struct {
	text string
	is   error
}

// Error implements error.
func (e *refusedError) Error() string { return e.text }

// Unwrap returns the refusal as it is known everywhere.
func (e *refusedError) Unwrap() error { return e.is }

// final reports whether trying again does not help.
func final(err error) bool {
	for _, known := range codes {
		if errors.Is(err, known.err) {
			return true
		}
	}
	return false
}

func decode[T any](text []byte) (v T, err error) {
	if err := json.Unmarshal(text, &v); err != nil {
		return v, fate.Mark(fmt.Errorf("formation: %w", err), fate.Refused)
	}
	return v, nil
}
