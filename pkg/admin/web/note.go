package web

import (
	"context"

	"github.com/brokerd/brokerd/pkg/fate"
)

// Act is what the audit log needs to know of a request besides the request and its status.
type Act struct {
	Object, Text string    // instead of the path and the body, if these may contain credentials
	Created      string    // the name in the body of what is to be created, if it is a topic or a channel
	DryRun       bool      // it changes nothing and is not recorded
	Fate         fate.Fate // of the change, if it failed
}

// Failed records how the action failed; nil: it did not.
func (a *Act) Failed(err error) {
	if err != nil {
		a.Fate = fate.Of(err)
	}
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
