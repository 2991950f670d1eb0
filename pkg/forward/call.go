package forward

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
)

// Errors with which a call between nodes is refused. Each is marked fate.Refused.
var (
	// ErrAlone refuses what needs a cluster.
	ErrAlone = fate.Refuse("no other node")
)

// Caller calls other nodes, and restores the meaning that their errors had there. Its methods are
// safe for concurrent use.
type Caller struct {
	Remote Remote // nil: this node is alone
}

// Call calls another node and waits for the answer.
func (c Caller) Call(ctx context.Context, node meta.NodeID, kind uint8, payload [][]byte) ([]byte, error) {
	if c.Remote == nil {
		return nil, ErrAlone
	}
	reply, err := c.Remote.Call(ctx, node, kind, payload)
	if err != nil {
		return nil, FromRemote(err)
	}
	return reply, nil
}

// Converge makes another node apply the metadata up to an index to the partitions of a topic that
// it leads, and waits for that.
func (c Caller) Converge(ctx context.Context, node meta.NodeID, m Converge) error {
	_, err := c.Call(ctx, node, KindConverge, encodeConverge(m))
	return err
}

// Operation is a named call between nodes. It is declared once, where it is carried out, and
// callers use the same value: A is the type of the request, R of the response. Both are encoded
// as JSON and decoded strictly.
type Operation[A, R any] string

// Nothing is an empty request or response.
type Nothing struct{}

// Ask calls another node and waits for the answer.
func (o Operation[A, R]) Ask(ctx context.Context, c Caller, node meta.NodeID, args A) (R, error) {
	var answer R
	payload, err := encodeOperate(string(o), args)
	if err != nil {
		return answer, fate.Mark(err, fate.Refused)
	}
	reply, err := c.Call(ctx, node, KindOperate, payload)
	if err != nil {
		return answer, err
	}
	if err := meta.DecodeStrict(reply, &answer); err != nil {
		return answer, fmt.Errorf("decode response of node %q to %q: %w", node, o, err)
	}
	return answer, nil
}

// Operations are the operations that this node carries out for others, by name. They are
// registered before the first call and constant afterwards.
type Operations map[string]func(ctx context.Context, args []byte) (any, error)

// Register adds an operation that f carries out. It panics if the name is registered already.
func Register[A, R any](all Operations, o Operation[A, R], f func(context.Context, A) (R, error)) {
	if all[string(o)] != nil {
		panic("BUG: duplicate operation name " + string(o))
	}
	all[string(o)] = func(ctx context.Context, raw []byte) (any, error) {
		var args A
		if err := meta.DecodeStrict(raw, &args); err != nil {
			return nil, fate.Mark(fmt.Errorf("decode arguments of operation %q: %w", o, err), fate.Refused)
		}
		return f(ctx, args)
	}
}

// Do carries out an operation for another node, and returns the payload of the answer.
func (all Operations) Do(ctx context.Context, m Operate) ([][]byte, error) {
	f := all[m.Op]
	if f == nil {
		return nil, fmt.Errorf("%w: unknown operation %q", failure.NoSuchCall, m.Op)
	}
	answer, err := f(ctx, m.Args)
	if err != nil {
		return nil, err
	}
	p, err := json.Marshal(answer)
	if err != nil {
		return nil, fmt.Errorf("encode response of operation %q: %w", m.Op, err)
	}
	return [][]byte{p}, nil
}
