package channel

import (
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// MaxGroup is the maximum number of finishes sent to other replicas together.
const MaxGroup = 256

// Finishing is a finish that other replicas must store before it counts: see Holds. C is the
// type of its owner.
type Finishing[C any] struct {
	Offset seq.Offset
	By     C
	since  time.Time
	over   bool // it was given up
}

// Finishings are finishes that wait for other replicas, in order. Those that arrive while a group
// is being sent form the next group. The zero value is empty. It is not safe for concurrent use.
type Finishings[C any] struct {
	list []*Finishing[C]
	told int  // the first ones of list, which are being sent to other replicas
	busy bool // a group is being sent, or its result is being recorded
}

// Add adds a finish of a held message.
func (l *Finishings[C]) Add(o seq.Offset, by C, now time.Time) {
	l.list = append(l.list, &Finishing[C]{Offset: o, By: by, since: now})
}

// Len returns how many finishes wait.
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
func (l *Finishings[C]) GiveUp(now time.Time, timeout time.Duration, h Holds) (late []*Finishing[C]) {
	for len(l.list) > 0 && now.Sub(l.list[0].since) >= timeout {
		f := l.list[0]
		l.list = slices.Delete(l.list, 0, 1)
		l.told = max(0, l.told-1)
		f.over = true
		h.Release(f.Offset)
		late = append(late, f)
	}
	return late
}
