package web

import "context"

// Act is what an endpoint says of a request for the audit log, where neither the path nor the
// body of the request may say it.
type Act struct {
	Object, Text string
	DryRun       bool // it changes nothing and is not recorded
}

type actKey struct{}

// WithAct returns ctx for a request, and where its endpoint says what it does.
func WithAct(ctx context.Context) (context.Context, *Act) {
	a := new(Act)
	return context.WithValue(ctx, actKey{}, a), a
}

// Note says what a request does, without credentials, for the audit log.
func Note(ctx context.Context, object, text string) {
	if a, ok := ctx.Value(actKey{}).(*Act); ok {
		a.Object, a.Text = object, text
	}
}

// NoteDryRun says whether a request is a dry run, which changes nothing: the audit log omits it.
func NoteDryRun(ctx context.Context, is bool) {
	if a, ok := ctx.Value(actKey{}).(*Act); ok {
		a.DryRun = is
	}
}
