package channel

import "github.com/brokerd/brokerd/pkg/policy"

// mode is how a channel delivers, as chosen by an operator or its consumers.
type mode struct {
	ordered bool // one message at a time
	paused  bool
}

// SetPaused stops or resumes delivery. Messages in flight stay so, and time out.
func (m *mode) SetPaused(paused bool) { m.paused = paused }

// Paused reports whether delivery is stopped.
func (m *mode) Paused() bool { return m.paused }

// Order returns the delivery order of a channel.
func Order(s *State) policy.Order {
	switch {
	case s.keyed != nil:
		return policy.ByKey
	case s.ordered:
		return policy.Strict
	}
	return policy.Unordered
}
