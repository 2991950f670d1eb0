package model

import (
	"fmt"
	"slices"
	"strings"
)

// trace reconstructs the history that leads to state number last, and from there to the first
// violation. States are found again by their fingerprints, from the beginning, so that each replica
// keeps one name throughout.
func (s *search) trace(last uint32) ([]Step, Violation) {
	var prints []uint64
	for at := last; at != 0; at = s.parents[at] {
		prints = append(prints, s.known[at])
	}
	state := s.config.initial()
	steps := []Step{{Start, 0, uint8(state.meta[0].isr), state.published}}
	for _, print := range slices.Backward(prints) {
		found := false
		from := state
		explorer{s.config, func(t *State, step Step) {
			if !found && s.prints.of(t) == print {
				found, state = true, *t
				steps = append(steps, step)
			}
		}}.next(&from)
	}
	var violation Violation
	found := false
	explorer{s.config, func(t *State, step Step) {
		if found {
			return
		}
		if violation, found = s.config.broken(&state, t, step); found {
			steps = append(steps, step)
		}
	}}.next(&state)
	return steps, violation
}

// String describes the result: a line of numbers, and the history of a violation.
func (r Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d states, %d transitions, depth %d: ", r.States, r.Transitions, r.Depth)
	if r.Violation == nil {
		b.WriteString("every invariant holds\n")
		return b.String()
	}
	fmt.Fprintf(&b, "%v\n", *r.Violation)
	for i, step := range r.Trace {
		fmt.Fprintf(&b, "%4d  %v\n", i, step)
	}
	return b.String()
}
