package forward_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
)

type sumArgs struct{ A, B int }

const sum forward.Operation[sumArgs, int] = "sum"

// loopback is a node whose calls reach its own operations.
type loopback struct{ all forward.Operations }

func (l loopback) Go(meta.NodeID, uint8, [][]byte, func([]byte, error)) { panic("BUG: not used") }

func (l loopback) Call(ctx context.Context, _ meta.NodeID, kind uint8, payload [][]byte) ([]byte, error) {
	if kind != forward.KindOperate {
		return nil, errors.New("not an operation")
	}
	var m forward.Operate
	if err := m.Decode(payload[0]); err != nil {
		return nil, err
	}
	reply, err := l.all.Do(ctx, m)
	if err != nil {
		return nil, err
	}
	return reply[0], nil
}

func TestOperationIsAnsweredByItsHandler(t *testing.T) {
	all := forward.Operations{}
	forward.Register(all, sum, func(_ context.Context, a sumArgs) (int, error) { return a.A + a.B, nil })
	c := forward.Caller{Remote: loopback{all}}
	if got, err := sum.Ask(t.Context(), c, "n2", sumArgs{2, 3}); got != 5 || err != nil {
		t.Errorf("%d, %v", got, err)
	}
	if _, err := forward.Operation[sumArgs, int]("product").Ask(t.Context(), c, "n2", sumArgs{}); !errors.Is(err, failure.NoSuchCall) {
		t.Errorf("an operation that is not registered: %v", err)
	}
	if _, err := sum.Ask(t.Context(), forward.Caller{}, "n2", sumArgs{}); !errors.Is(err, forward.ErrAlone) {
		t.Errorf("without other nodes: %v", err)
	}
}

func TestOperationsAreReadStrictly(t *testing.T) {
	all := forward.Operations{}
	forward.Register(all, sum, func(_ context.Context, a sumArgs) (int, error) { return a.A + a.B, nil })
	for _, args := range []string{`{"A":1,"B":2,"C":3}`, `{"A":1} {"B":2}`, `{"A":"one"}`, `[]`, ``} {
		_, err := all.Do(t.Context(), forward.Operate{Op: "sum", Args: []byte(args)})
		if err == nil || fate.Of(err) != fate.Refused {
			t.Errorf("%s: %v, want that it is refused", args, err)
		}
	}
	c := forward.Caller{Remote: loopback{forward.Operations{"sum": func(context.Context, []byte) (any, error) {
		return struct{ Sum, Carry int }{1, 1}, nil
	}}}}
	_, err := forward.Operation[sumArgs, struct{ Sum int }]("sum").Ask(t.Context(), c, "n2", sumArgs{})
	if err == nil || !strings.Contains(err.Error(), "Carry") {
		t.Errorf("an answer with a field that is not known here: %v", err)
	}
}

func TestNameIsRegisteredOnce(t *testing.T) {
	all := forward.Operations{}
	f := func(context.Context, sumArgs) (int, error) { return 0, nil }
	forward.Register(all, sum, f)
	defer func() {
		if recover() == nil {
			t.Error("a second operation of the same name replaced the first")
		}
	}()
	forward.Register(all, sum, f)
}
