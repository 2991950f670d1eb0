package raftstore

import (
	"encoding/json"
	"fmt"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
)

// answer is the leader's answer to a forwarded command. It does not contain what the command
// changed: the node that asked applies the same command itself.
type answer struct {
	Index   uint64 `json:"index,omitempty"` // of the command; 0: it was not committed, or that is unknown
	Existed bool   `json:"existed,omitempty"`
	Number  uint16 `json:"number,omitempty"` // of the error's failure.Kind; 0: success, or an error without a kind
	Refused bool   `json:"refused,omitempty"`
	Text    string `json:"text,omitempty"` // of the error; "" if none
}

// maxAnswerText bounds the text of an error in an answer.
const maxAnswerText = 4 << 10

func encodeAnswer(r meta.Result, err error) ([]byte, error) {
	a := answer{Index: r.Index, Existed: r.Existed}
	if err != nil {
		a.Text = err.Error()
		a.Text = a.Text[:min(len(a.Text), maxAnswerText)]
		a.Refused = fate.Of(err) == fate.Refused
		if k := failure.Find(err); k != nil {
			a.Number = k.Number
		}
	}
	return json.Marshal(a)
}

// decodeAnswer decodes an answer. Unknown fields of a newer version are ignored.
func decodeAnswer(text []byte) (a answer, err error) {
	if err := json.Unmarshal(text, &a); err != nil {
		return a, fmt.Errorf("decode answer of the metadata leader: %w", err)
	}
	return a, nil
}

// err returns the error in the answer, or nil. errors.Is finds in it what it would have found at
// the leader.
func (a *answer) err() error {
	if a.Text == "" {
		if a.Index == 0 {
			return failure.CommandUnknown
		}
		return nil
	}
	if k := failure.Numbered(a.Number); k != nil {
		return &remoteError{a.Text, k}
	}
	if a.Refused {
		return fate.Refuse(a.Text)
	}
	return &remoteError{a.Text, failure.CommandUnknown}
}

// remoteError is an error that occurred on another node.
type remoteError struct {
	text string
	is   error // the sentinel
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.is }

// outcome returns the result, on this node, of a command that the leader has committed and this
// node has applied. If the command was part of a snapshot, or many others followed it, its result
// is no longer known here; then only a refusal in the answer can be returned.
func (m *machine) outcome(a answer) (meta.Result, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if r := m.recent[a.Index%uint64(len(m.recent))]; r.Index == a.Index {
		return r, r.Err
	}
	r := meta.Result{Index: a.Index, Existed: a.Existed, Err: a.err()}
	if r.Err == nil {
		return r, failure.Behind
	}
	return r, r.Err
}
