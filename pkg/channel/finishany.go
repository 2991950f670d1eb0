package channel

import "github.com/brokerd/brokerd/pkg/seq"

// Operator is how operators change a State. It is a view; like the State it is not safe for
// concurrent use.
type Operator struct{ s *State }

// Operator returns the view.
func (s *State) Operator() Operator { return Operator{s} }

// Finish finishes the message at an offset below the committed end, even if a consumer has it:
// the consumer's answer then fails with failure.NotInFlight. It returns the previous state. A held
// message is being finished by its consumer, and is not changed.
func (x Operator) Finish(o seq.Offset) (was MessageState) {
	s := x.s
	was, _ = s.StateOf(o)
	if was == Finished {
		return was
	}
	if slot, ok := s.slotOf(o); ok {
		if s.t.slots[slot].place == held {
			return was
		}
		s.forget(slot)
	}
	s.recorder.add(o)
	s.done.Add(o)
	s.advanceFloor()
	s.revision++
	return was
}
