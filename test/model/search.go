package model

import (
	"errors"
	"fmt"
)

// ErrTooMany is returned by a search that met more states than its limit.
var ErrTooMany = errors.New("too many states")

// Result is the result of a search.
type Result struct {
	States      int            // different states, up to the names of the replicas
	Transitions int            // steps taken between them
	Depth       int            // the longest of the shortest histories
	Taken       [stepKinds]int // the transitions, by kind
	Violation   *Violation
	Trace       []Step // of the violation: a shortest one
}

// Search visits every state that c allows, nearest first, until an invariant is violated. It
// returns ErrTooMany, with its counts, instead of storing more than limit states.
func Search(c Config, limit int) (Result, error) {
	s := &search{config: &c, prints: newFingerprinter(), limit: limit}
	return s.run()
}

// search remembers a fingerprint and a parent for every state, and whole states
// only at the border.
type search struct {
	config *Config
	prints *fingerprinter
	limit  int

	seen    table
	parents []uint32 // of every state, in the order of discovery
	known   []uint64 // its fingerprint
	result  Result
}

func (s *search) run() (Result, error) {
	first := s.config.initial()
	s.add(s.prints.of(&first), 0)
	level := []State{first}
	base := 0 // the number of the first state of the level
	for len(level) > 0 {
		var following []State
		begin := len(s.known)
		for i := range level {
			from := &level[i]
			parent := uint32(base + i)
			explorer{s.config, func(t *State, step Step) {
				if s.result.Violation != nil {
					return
				}
				s.result.Transitions++
				s.result.Taken[step.Kind]++
				if s.add(s.prints.of(t), parent) {
					following = append(following, *t)
				}
				if _, bad := s.config.broken(from, t, step); bad {
					steps, v := s.trace(parent)
					s.result.Trace, s.result.Violation = steps, &v
				}
			}}.next(from)
			if s.result.Violation != nil {
				s.result.States = len(s.known)
				return s.result, nil
			}
			if len(s.known) > s.limit {
				s.result.States = len(s.known)
				return s.result, fmt.Errorf("%w: %d", ErrTooMany, len(s.known))
			}
		}
		level, base = following, begin
		if len(level) > 0 {
			s.result.Depth++
		}
	}
	s.result.States = len(s.known)
	return s.result, nil
}

// add remembers a state, unless it is known.
func (s *search) add(print uint64, parent uint32) bool {
	if !s.seen.add(print) {
		return false
	}
	s.known = append(s.known, print)
	s.parents = append(s.parents, parent)
	return true
}
