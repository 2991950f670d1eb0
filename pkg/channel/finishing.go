package channel

import (
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// MaxGroup is the maximum number of finishes sent to other replicas together.
const MaxGroup = 256

// Finishing is a finish that others have to store before it counts: see State.Hold. C is whose
// it is.
type Finishing[C any] struct {
	Offset seq.Offset
	By     C
	since  time.Time
	over   bool // given up
}

// Finishings are finishes that wait for other replicas, in order. Those that arrive while a group
// is being sent form the next group. The zero value is empty. It is not safe for concurrent use.
type Finishings[C any] struct {
	list []*Finishing[C]
	told int  // of list, which others are being told of
	busy bool // others are being told, or what they know is being noted
}

// Add adds a finish of a message that is held.
func (l *Finishings[C]) Add(o seq.Offset, by C, now time.Time) {
	l.list = append(l.list, &Finishing[C]{Offset: o, By: by, since: now})
}

// Len returns how many wait.
func (l *Finishings[C]) Len() int { return len(l.list) }

// Next returns the next group to send; nil if there is none, or if a group is being sent.
// Confirm and Done follow.
func (l *Finishings[C]) Next() []*Finishing[C] {
	if l.busy || len(l.list) == 0 {
		return nil
	}
	l.busy, l.told = true, min(len(l.list), MaxGroup)
	return slices.Clone(l.list[:l.told])
}

// Confirm removes the sent group from the list and returns the finishes that were not given up and
// can no longer be. A finish that was given up no longer counts, even if it is stored everywhere
// later: the message may be in flight again.
func (l *Finishings[C]) Confirm(group []*Finishing[C]) []*Finishing[C] {
	l.list = slices.Delete(l.list, 0, l.told)
	l.told = 0
	return slices.DeleteFunc(group, func(f *Finishing[C]) bool { return f.over })
}

// Done ends the processing of the finishes returned by Confirm.
func (l *Finishings[C]) Done() { l.busy = false }

// GiveUp removes the finishes that have waited too long and makes their messages ready again.
func (l *Finishings[C]) GiveUp(now time.Time, timeout time.Duration, s *State) (late []*Finishing[C]) {
	for len(l.list) > 0 && now.Sub(l.list[0].since) >= timeout {
		f := l.list[0]
		l.list = slices.Delete(l.list, 0, 1)
		l.told = max(0, l.told-1)
		f.over = true
		s.Release(f.Offset)
		late = append(late, f)
	}
	return late
}
