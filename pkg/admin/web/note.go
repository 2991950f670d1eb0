package web

import "context"

// Act is what an endpoint says of a request for the audit log, where neither the path nor the
// body of the request may say it.
type Act struct {
	Object, Text string // without credentials
	DryRun       bool   // it changes nothing and is not recorded
}

type actKey struct{}

// WithAct returns ctx for a request, and where its endpoint says what it does.
func WithAct(ctx context.Context) (context.Context, *Act) {
	a := new(Act)
	return context.WithValue(ctx, actKey{}, a), a
}

// ActOf returns what the endpoint of a request says of it for the audit log. It is not nil: where
// nothing is recorded, what is said is not kept.
func ActOf(ctx context.Context) *Act {
	if a, ok := ctx.Value(actKey{}).(*Act); ok {
		return a
	}
	return new(Act)
}
