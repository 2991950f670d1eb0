package channel

import "github.com/brokerd/brokerd/pkg/seq"

// Skip finishes the messages of [from, end) that are not in flight, in time proportional to the
// range.
func (x Operator) Skip(from, end seq.Offset) {
	s := x.s
	drawRange(&s.ledger, max(from, s.floor), end)
	for o := max(from, s.floor); o < end; o++ {
		if s.t != nil {
			if slot, ok := s.t.index.get(o); ok {
				if at := s.t.slots[slot].place; at == inFlight || at == held {
					continue
				}
				s.forget(slot)
			}
		}
		s.recorder.add(o)
		s.done.Add(o)
	}
	s.advanceFloor()
	s.revision++
}
