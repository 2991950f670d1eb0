package topic

import (
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
)

// Publish is Offer, except that done gets a refusal too.
func (p *Partition) Publish(msgs []Message, done func(Receipt)) {
	since := time.Now()
	if err := p.Offer(Offered{Messages: msgs, Done: done}); err != nil {
		err = fate.Brief(err, failure.NoSpace, failure.NoFiles)
		p.o.Observer.ObservePublish(time.Since(since), err)
		done(Receipt{Partition: p.o.Index, Err: err})
	}
}
