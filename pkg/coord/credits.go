package coord

import (
	"sync"

	"github.com/brokerd/brokerd/pkg/coord/replication"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
)

// Credits are shared by the terms of a node: one replication.Credit for each other node, whatever
// the partition. Safe for concurrent use.
type Credits struct {
	sizes limit.Sizes

	mu sync.Mutex // guards what follows
	of map[meta.NodeID]*replication.Credit
}

// NewCredits returns credits of Sizes.Pair bytes each; zero: limit.Default.
func NewCredits(s limit.Sizes) *Credits {
	return &Credits{sizes: s.OrDefault(), of: map[meta.NodeID]*replication.Credit{}}
}

// To returns the credit for followers on a node, or nil if there are no Credits.
func (c *Credits) To(node meta.NodeID) *replication.Credit {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	credit := c.of[node]
	if credit == nil {
		credit = replication.NewCredit(c.sizes)
		c.of[node] = credit
	}
	return credit
}
