package operate

import (
	"context"

	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
)

// Planner says what changes of topics would do, and what nodes would take. Its methods are safe for concurrent use.
type Planner struct{ Node *Node }

var askLimit = question[forward.Nothing, int]{"limit", func(o *Node, _ context.Context, _ forward.Nothing) (int, error) {
	return o.MaxMessage, nil
}}

// MessageLimit returns the size in bytes of the largest message that every node takes from its clients, and the
// node with this limit. Nodes that do not answer are left out.
func (p Planner) MessageLimit(ctx context.Context) (bytes int, node meta.NodeID) {
	o := p.Node
	bytes, node = o.MaxMessage, o.Self
	for id, n := range askAll(ctx, o, askLimit, o.present(), func(meta.NodeID) forward.Nothing { return forward.Nothing{} }) {
		if n < bytes || n == bytes && id < node {
			bytes, node = n, id
		}
	}
	return bytes, node
}

// PlanTopic returns the topic that its creation would return, without creating it.
func (p Planner) PlanTopic(name string, cfg meta.TopicConfig) (*meta.Topic, error) {
	return p.Node.topics.PlanTopic(name, cfg)
}
