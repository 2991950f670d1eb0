package channel

// mode is how a channel delivers: what an operator or its consumers chose.
type mode struct {
	ordered bool
	paused  bool
}

// SetPaused stops or resumes delivery. Messages in flight stay so, and time out.
func (m *mode) SetPaused(paused bool) { m.paused = paused }

// Paused says whether delivery is stopped.
func (m *mode) Paused() bool { return m.paused }

// SetOrdered makes the channel deliver one message at a time in order, or not.
// What is in flight or deferred stays so.
func (m *mode) SetOrdered(ordered bool) { m.ordered = ordered }

// Ordered says whether the channel delivers one message at a time in order.
func (m *mode) Ordered() bool { return m.ordered }
