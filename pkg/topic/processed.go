package topic

import (
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// processed notes how long a message took that is finished.
func (k *Consumer) processed(o seq.Offset, now time.Time) {
	if took, attempts, ok := k.probe.End(o, now); ok {
		k.ch.p.o.Observer.ObserveFinish(took, attempts)
	}
	if k.ch.times == nil {
		return
	}
	if at, ok := k.published.Take(o); ok {
		k.ch.times.Ended(at, now)
	}
}
