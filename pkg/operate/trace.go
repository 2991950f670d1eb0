package operate

import (
	"context"
	"slices"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/trace"
)

// traceRounds is how often the nodes are asked for copies that other nodes know.
const traceRounds = 3

var askTrace = question[trace.Query, trace.Found]{"trace", func(o *Node, _ context.Context, q trace.Query) (trace.Found, error) {
	return o.Trace.Find(q), nil
}}

// Traced finds traced messages on all nodes.
type Traced struct {
	Lives     []trace.Life
	Silent    []string // nodes that did not respond: their events are missing
	Truncated bool     // there are more messages
}

// Traces gives operators access to the events of messages. Its methods are safe for concurrent use.
type Traces struct{ Node *Node }

// Trace asks all nodes for traces, because nodes that no longer lead or hold the partition may
// have recorded events.
func (x Traces) Trace(ctx context.Context, q trace.Query) (Traced, error) {
	var all []meta.NodeID
	for _, n := range x.Node.Meta.Nodes() {
		all = append(all, n.ID)
	}
	var found map[string]trace.Found
	for range traceRounds {
		answers := askAll(ctx, x.Node, askTrace, all, func(meta.NodeID) trace.Query { return q })
		if err := ctx.Err(); err != nil {
			return Traced{}, err
		}
		found = map[string]trace.Found{}
		known := len(q.Messages)
		for id, f := range answers {
			found[string(id)] = f
			for _, m := range f.Messages {
				if !slices.Contains(q.Messages, m) && len(q.Messages) < trace.MaxFound {
					q.Messages = append(q.Messages, m)
				}
			}
		}
		if len(q.Messages) == known || len(all) == 1 {
			break // they know the same messages
		}
	}
	out := Traced{Lives: trace.Lives(found)}
	for _, id := range all {
		f, ok := found[string(id)]
		if !ok {
			out.Silent = append(out.Silent, string(id))
		}
		out.Truncated = out.Truncated || f.Truncated
	}
	return out, nil
}
