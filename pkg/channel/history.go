package channel

import (
	"github.com/brokerd/brokerd/pkg/position"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Return moves the channel back to its position before an operator moved it to target: everything
// below floor and in the ranges is finished. If the channel was moved forward, messages that
// consumers have finished since then at or above target stay finished.
func Return(s *State, floor seq.Offset, finished []position.Range, target seq.Offset) {
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
	s.Seek(floor)
	for _, all := range [][]position.Range{finished, since} {
		for _, r := range all {
			if r.End > floor {
				s.done.AddRange(max(r.From, floor), r.End)
			}
		}
	}
	s.advanceFloor()
}

// Moved counts the effect of a move to a target on a channel whose messages below floor and in
// the ranges are finished: finished messages that would be redelivered, and unfinished ones
// that would be skipped.
func Moved(floor seq.Offset, finished []position.Range, target seq.Offset) (redelivered, skipped int64) {
	redelivered = max(0, int64(floor)-int64(target))
	skipped = max(0, int64(target)-int64(floor))
	for _, r := range finished {
		below := max(0, int64(min(r.End, target))-int64(r.From))
		skipped -= below
		redelivered += int64(r.End-r.From) - below
	}
	return redelivered, skipped
}
