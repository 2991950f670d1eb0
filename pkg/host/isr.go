package host

import (
	"context"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/meta"
)

// Bounds of metadata changes requested by terms.
const (
	// proposeTogether is how many changes are in progress at a time. They share the metadata's disk
	// writes.
	proposeTogether = 128
	proposeTimeout  = 5 * time.Second
)

// proposer proposes changes of in-sync sets to the metadata on behalf of terms.
type proposer struct {
	propose func(context.Context, meta.Command) (meta.Result, error)
	running sync.WaitGroup
	ctx     context.Context // ends with stop
	stop    context.CancelFunc

	mu      sync.Mutex // guards what follows
	waiting []proposal
	workers int
	closed  bool
}

// proposal is a change requested by a term.
type proposal struct {
	of     meta.PartitionID
	term   *coord.Term
	change coord.ISRChange
}

func newProposer(propose func(context.Context, meta.Command) (meta.Result, error)) *proposer {
	p := &proposer{propose: propose}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// ask requests a change and does not wait. The term is notified of the outcome.
func (p *proposer) ask(x proposal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return // the terms end as well
	}
	p.waiting = append(p.waiting, x)
	if p.workers < proposeTogether {
		p.workers++
		p.running.Go(p.work)
	}
}

func (p *proposer) work() {
	for {
		p.mu.Lock()
		if len(p.waiting) == 0 {
			p.workers--
			p.waiting = nil
			p.mu.Unlock()
			return
		}
		x := p.waiting[0]
		p.waiting = p.waiting[1:]
		p.mu.Unlock()
		ctx, cancel := context.WithTimeout(p.ctx, proposeTimeout)
		_, err := p.propose(ctx, meta.AlterISR{
			Topic: x.of.Topic, Incarnation: x.of.Incarnation, Partition: x.of.Partition,
			Epoch: x.change.Epoch, Version: x.change.Version, ISR: x.change.ISR,
			Joiner: x.change.Joiner, JoinerIncarnation: x.change.Incarnation,
		})
		cancel()
		x.term.ISRProposed(x.change, err)
	}
}

// close ends the changes in progress and accepts no more.
func (p *proposer) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.stop()
	p.running.Wait()
}
