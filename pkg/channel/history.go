package channel

import (
	"github.com/brokerd/brokerd/pkg/position"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Return moves the channel back to its position before an operator moved it to target: everything
// below floor and in the ranges is finished. If the channel was moved forward, messages that
// consumers have finished since then at or above target stay finished.
func (x Operator) Return(floor seq.Offset, finished []position.Range, target seq.Offset) {
	s := x.s
	var since []position.Range
	if target > floor {
		if s.floor > target {
			since = append(since, position.Range{From: target, End: s.floor})
		}
		for from, end := range s.done.Ranges() {
			if from >= target {
				since = append(since, position.Range{From: from, End: end})
			}
		}
	}
	x.Seek(floor)
	for _, all := range [][]position.Range{finished, since} {
		for _, r := range all {
			if r.End > floor {
				s.done.AddRange(max(r.From, floor), r.End)
			}
		}
	}
	s.advanceFloor()
}
