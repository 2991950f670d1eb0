package guard

import (
	"context"
	"fmt"
	"time"

	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/failure"
)

// Caller is the client that makes a request: unknown, or a user with a
// credential.
type Caller struct {
	Who       *Identity         // nil: no valid credential
	Directory *access.Directory // by which the request was let in
	At        time.Time
}

// Name returns the user's name; "": the client is unknown.
func (c Caller) Name() string {
	if c.Who.First() {
		return firstAdministrator
	}
	if u := c.Who.User(c.Directory, c.At.UnixNano()); u != nil {
		return u.Name
	}
	return ""
}

// Allow returns nil if the caller may do something, and otherwise an error that wraps
// failure.NotPermitted. While access control is off, every caller may do everything.
func (c Caller) Allow(want access.Demand) error {
	if !c.Directory.On() {
		return nil
	}
	return c.Permit(want)
}

// Permit is Allow for requests that need a rule even while access control is
// off.
func (c Caller) Permit(want access.Demand) error {
	if _, ok := c.Directory.Check(c.Name(), want); !ok {
		return Forbid(c.Name(), access.Rule(want))
	}
	return nil
}

// Sees reports whether the caller may learn that there is a topic or, if one is named, a channel of it: with the right
// to read, or with any right on it.
func (c Caller) Sees(topic, channel string) bool {
	switch {
	case c.Allow(access.Demand{Right: access.Read}) == nil, c.Allow(access.Demand{Right: access.Manage, Topic: topic}) == nil:
		return true
	case channel != "":
		return c.Allow(access.Demand{Right: access.Subscribe, Topic: topic, Channel: channel}) == nil
	}
	return c.Allow(access.Demand{Right: access.Publish, Topic: topic}) == nil || c.Directory.May(c.Name(), access.Subscribe, topic)
}

// Forbid returns an error that wraps failure.NotPermitted and names the rule that a user lacks.
func Forbid(user string, lacks access.Rule) error {
	return fmt.Errorf("%w: user %q has no rule for %s", failure.NotPermitted, user, lacks)
}

type callerKey struct{}

// WithCaller returns ctx for a request of a caller.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns the caller whose request ctx belongs to. Without one it returns the zero
// Caller, which access control does not apply to.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}
