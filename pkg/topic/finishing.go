package topic

import (
	"errors"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
)

// FinTimeout bounds how long a FIN of an ordered channel waits for the in-sync
// replicas to store it, as while there are fewer than the topic asks for.
const FinTimeout = 5 * time.Second

// ErrFinNotStored is why a FIN of an ordered channel failed that was taken: not enough
// in-sync replicas stored it within FinTimeout. The message is delivered again, here or,
// if one of them has stored it and leads next, not at all.
var ErrFinNotStored = fate.Mark(errors.New("not confirmed by enough in-sync replicas in time: the message will be redelivered"), fate.Uncertain)

// finishing is a FIN of an ordered channel that others have to store before it
// counts.
type finishing struct {
	offset seq.Offset
	by     *Consumer
	since  time.Time
}

// finishings are FINs that wait, in order. The channel's mutex guards them.
type finishings []*finishing

// settle takes a FIN off the list, and returns whether it was on it. One that was
// given up counts no more, even if it is stored everywhere later: the message may be
// in flight again.
func (l *finishings) settle(f *finishing) bool {
	i := slices.Index(*l, f)
	if i >= 0 {
		*l = slices.Delete(*l, i, i+1)
	}
	return i >= 0
}

// giveUp takes those off the list that have waited for too long, and makes their
// messages ready again.
func (l *finishings) giveUp(now time.Time, s *channel.State) (late []*finishing) {
	for len(*l) > 0 && now.Sub((*l)[0].since) >= FinTimeout {
		f := (*l)[0]
		*l = slices.Delete(*l, 0, 1)
		s.Release(f.offset)
		late = append(late, f)
	}
	return late
}
