package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/brokerd/brokerd/pkg/fate"
)

// operation is what another node asks for by name: its arguments and its answer
// are JSON.
type operation = func(ctx context.Context, args json.RawMessage) (any, error)

// settleArgs ask a node to settle a topic: see directory.Settle.
type settleArgs struct {
	Topic string `json:"topic"`
	Index uint64 `json:"index"`
}

// registerOps fills in what other nodes can ask for by name.
func (b *Broker) registerOps() {
	b.ops = map[string]operation{
		"settle": decoded(func(ctx context.Context, a settleArgs) (any, error) {
			return struct{}{}, b.Settle(ctx, a.Topic, a.Index)
		}),
		opHandover: decoded(func(ctx context.Context, a handoverArgs) (any, error) {
			return struct{}{}, handovers{b.hosting}.one(ctx, a)
		}),
	}
	b.ops[opLeaving] = decoded(func(ctx context.Context, a leavingArgs) (any, error) {
		return struct{}{}, b.seeOff(ctx, a)
	})
	b.ops[opForget] = decoded(func(_ context.Context, a forgetArgs) (any, error) {
		return struct{}{}, quarantine{b.hosting}.forgetHere(a)
	})
	maps.Copy(b.ops, b.operator.ops())
}

// decoded returns an operation whose arguments are of a type.
func decoded[A any](f func(context.Context, A) (any, error)) operation {
	return func(ctx context.Context, raw json.RawMessage) (any, error) {
		var args A
		if err := json.Unmarshal(raw, &args); err != nil {
			return nil, fate.Mark(fmt.Errorf("encode arguments: %w", err), fate.Refused)
		}
		return f(ctx, args)
	}
}
