package topic

import (
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/seq"
)

// maxGroup is the maximum number of finishes sent to other replicas together.
const maxGroup = 256

// pendingFinish is a finish that other replicas must store before it counts: see channel.Holds.
type pendingFinish struct {
	offset  seq.Offset
	by      *Consumer // nil: the message was skipped
	since   time.Time
	givenUp bool
}

// pendingFinishes are finishes that wait for other replicas, in order. Those that arrive while a
// group is being sent form the next group. The zero value is empty. It is not safe for concurrent
// use.
type pendingFinishes struct {
	list []*pendingFinish
	sent int  // the first ones of list, which are being sent to other replicas
	busy bool // a group is being sent, or its result is being recorded
}

// add adds a finish of a held message.
func (l *pendingFinishes) add(o seq.Offset, by *Consumer, now time.Time) {
	l.list = append(l.list, &pendingFinish{offset: o, by: by, since: now})
}

// next returns the next group to send; nil if there is none, or if a group is being sent.
// confirm and done follow.
func (l *pendingFinishes) next() []*pendingFinish {
	if l.busy || len(l.list) == 0 {
		return nil
	}
	l.busy, l.sent = true, min(len(l.list), maxGroup)
	return slices.Clone(l.list[:l.sent])
}

// confirm removes the sent group from the list and returns the finishes that were not given up and
// can no longer be. A finish that was given up no longer counts, even if it is stored everywhere
// later: the message may be in flight again.
func (l *pendingFinishes) confirm(group []*pendingFinish) []*pendingFinish {
	l.list = slices.Delete(l.list, 0, l.sent)
	l.sent = 0
	return slices.DeleteFunc(group, func(f *pendingFinish) bool { return f.givenUp })
}

// done ends the processing of the finishes returned by confirm.
func (l *pendingFinishes) done() { l.busy = false }

// giveUp removes the finishes that have waited too long and makes their messages ready again.
func (l *pendingFinishes) giveUp(now time.Time, timeout time.Duration, h channel.Holds) (late []*pendingFinish) {
	for len(l.list) > 0 && now.Sub(l.list[0].since) >= timeout {
		f := l.list[0]
		l.list = slices.Delete(l.list, 0, 1)
		l.sent = max(0, l.sent-1)
		f.givenUp = true
		h.Release(f.offset)
		late = append(late, f)
	}
	return late
}
