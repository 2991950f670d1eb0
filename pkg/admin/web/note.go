package web

import "context"

// Act is what an endpoint records in the audit log if neither the path nor the body of the request
// may be recorded.
type Act struct {
	Object, Text string // without credentials
	DryRun       bool   // it changes nothing and is not recorded
}

type actKey struct{}

// WithAct returns a context for a request, in which its endpoint can record its action.
func WithAct(ctx context.Context) (context.Context, *Act) {
	a := new(Act)
	return context.WithValue(ctx, actKey{}, a), a
}

// ActOf returns the action recorded by the endpoint of a request. It is never nil: without an
// audit log, the record is dropped.
func ActOf(ctx context.Context) *Act {
	if a, ok := ctx.Value(actKey{}).(*Act); ok {
		return a
	}
	return new(Act)
}
