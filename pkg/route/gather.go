package route

import (
	"sync"

	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// Gather combines the outcomes of the parts of a publish. Its methods are safe for
// concurrent use.
type Gather struct {
	done func(topic.Receipt)

	mu      sync.Mutex // guards what follows
	left    int
	ids     []seq.MessageID // of all messages
	some    bool            // some are stored
	err     error
	receipt topic.Receipt // of the first message's part
}

// NewGather starts a publish of a number of messages in a number of parts. done receives the
// combined outcome.
func NewGather(messages, parts int, done func(topic.Receipt)) *Gather {
	return &Gather{done: done, left: parts, ids: make([]seq.MessageID, messages)}
}

// Answer adds the outcome of one part.
func (g *Gather) Answer(p *Part, r topic.Receipt) {
	g.mu.Lock()
	switch {
	case r.Err == nil:
		g.some = true
		for n, i := range p.index {
			g.ids[i] = r.ID(n)
		}
	case g.err == nil || fate.Of(r.Err) == fate.Uncertain:
		g.err = r.Err
	}
	if p.index[0] == 0 {
		g.receipt = r
	}
	g.left--
	over := g.left == 0
	g.mu.Unlock()
	if !over {
		return
	}
	out := g.receipt
	out.Err = g.err
	switch {
	case out.Err == nil:
		out.Count, out.IDs = len(g.ids), g.ids
	case g.some && fate.Of(out.Err) == fate.Refused:
		out.Err = fate.Mark(out.Err, fate.Uncertain) // other partitions have their part
	}
	g.done(out)
}
