package formation

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/level"
)

// request is a request from one node to another. Unknown fields are ignored.
type request struct {
	Kind    requestKind `json:"kind"`
	From    identity    `json:"from"`
	Cluster string      `json:"cluster,omitempty"` // of the sender; "": none
	// Fields of a request for membership.
	Fresh   bool        `json:"fresh,omitempty"`
	Levels  level.Range `json:"levels,omitzero"`   // feature levels that the program supports
	Relayed bool        `json:"relayed,omitempty"` // sent on by a member: not forwarded again
	// Proof is that of the sender's join token; nil: it has none.
	Proof *access.JoinProof `json:"proof,omitempty"`
	// Claim is that of askDisk.
	Claim *claim `json:"claim,omitempty"`
}

type requestKind string

const (
	askWho     requestKind = "who"
	askPromise requestKind = "promise" // that the sender may bootstrap the cluster
	askBond    requestKind = "bind"
	askRelease requestKind = "release"
	askJoin    requestKind = "join"
	askDisk    requestKind = "disk" // whether the sender's data directory is outdated
)

type answer struct {
	seen
	Granted bool   `json:"granted,omitempty"`
	Code    string `json:"code,omitempty"` // reason of a refusal; "": retry
	Reason  string `json:"reason,omitempty"`
	Certain bool   `json:"certain,omitempty"` // of askDisk: the leader has answered
}

// ErrSelf is returned by Options.Call if the address is this node's own.
var ErrSelf = fate.Refuse("address of join is this node's own")

var errNotGranted = fate.Refuse("request to form or join a cluster not granted")

// codes names the refusals that a node tells apart. After one that is not passing, it does not ask again.
var codes = []struct {
	code    string
	err     error
	passing bool
}{
	{"node-id-taken", ErrNodeIDTaken, false},
	{"other-cluster", ErrOtherCluster, false},
	{"level", failure.FeatureLevel, false},
	{"removed", failure.Removed, false},
	{"address-taken", ErrAddressTaken, false},
	{"join-token", ErrJoinToken, false},
	{"not-sender", ErrNotSender, false},
	{"open-port", ErrOpenPort, false},
	{"unanswered", errUnanswered, true},
	{"disk-outdated", ErrDiskOutdated, false},
}

// refuse sets the reason of a refusal.
func (a *answer) refuse(err error) {
	a.Granted, a.Code, a.Reason = false, "", err.Error()
	for _, known := range codes {
		if errors.Is(err, known.err) {
			a.Code = known.code
		}
	}
}

// err returns the reason of a refusal, or nil.
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

// refusedError is a refusal by another node, with its text.
type refusedError struct {
	text string
	is   error
}

// Error implements error.
func (e *refusedError) Error() string { return e.text }

// Unwrap returns the sentinel of the refusal.
func (e *refusedError) Unwrap() error { return e.is }

// final reports whether a refusal is permanent.
func final(err error) bool {
	for _, known := range codes {
		if !known.passing && errors.Is(err, known.err) {
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
