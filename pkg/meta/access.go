package meta

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/pkg/access"
)

// ChangeAccess changes the access control directory.
type ChangeAccess struct {
	Change access.Change `json:"change"`
}

func (c ChangeAccess) validate() error { return c.Change.Validate() }

func (c ChangeAccess) apply(s *State, _ *Result) error {
	next, err := s.access.Apply(c.Change)
	if err != nil {
		return err
	}
	s.access = next
	return nil
}

// AccessOf returns the access control directory of a state: the same pointer until it changes,
// and nil before the first change.
func AccessOf(s *State) *access.Directory { return s.access }

// describeAccess describes a change, without credentials.
func describeAccess(c ChangeAccess) Event {
	return Event{Kind: "access_changed", Object: c.Change.Of(), What: accessPrefix + clip(c.Change.String())}
}

const accessPrefix = "access control: "

// Took returns the index of the last change that may have taken away what c would, among the events; 0: there is none.
func (j Journal) Took(c access.Change) uint64 {
	for _, e := range slices.Backward(j.past.events) {
		for _, verb := range []access.Verb{c.Verb, access.DeleteUser} {
			took := accessPrefix + access.Change{Verb: verb, User: c.User, ID: c.ID}.String()
			if rest, is := strings.CutPrefix(e.What, took); is && (rest == "" || strings.HasPrefix(rest, " ") || strings.HasPrefix(rest, ",")) {
				return e.Index
			}
		}
	}
	return 0
}

// encodeAccess writes the snapshot's line about access, if anything was ever changed.
func encodeAccess(s *State, e *json.Encoder) error {
	if s.access == nil {
		return nil
	}
	return e.Encode(s.access.Store())
}

// decodeAccess reads that line, if there is one.
func decodeAccess(s *State, some bool, next func(any) error) error {
	if !some {
		return nil
	}
	var in access.Stored
	if err := next(&in); err != nil {
		return fmt.Errorf("access: %w", err)
	}
	d, err := access.Restore(in)
	if err != nil {
		return fmt.Errorf("access: %w", err)
	}
	s.access = d
	return nil
}
