// Package shell is what brokerctl gives to those of its commands that are in packages of their own.
package shell

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

// Shell is what a command has around it.
type Shell struct {
	Client  func() *api.Client
	Timeout func() time.Duration // of a request
	Show    func(*cobra.Command, output.Answer) error
	// Yes reports whether the user has answered all questions by --yes.
	Yes func() bool
	// Confirm asks the user to type a name before an irreversible change, unless Yes.
	Confirm func(cmd *cobra.Command, what, name string) error
	// Partial reports what was done before an error.
	Partial  func(ctx context.Context, err error, did string) error
	Group    func(*cobra.Command, []string) error // what a command does that only holds others
	Nodes    cobra.CompletionFunc                 // completes the name of a node
	Duration func(f *pflag.FlagSet, p *time.Duration, name, usage string)
}

// Request sends a request with the timeout of a request.
func Request[T any](ctx context.Context, s *Shell, f func(context.Context, *api.Client) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout())
	defer cancel()
	return f(ctx, s.Client())
}

// Usage returns an error of the command line.
func Usage(text string, args ...any) error { return api.Errorf(failure.Usage, text, args...) }
