package accessctl

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/internal/shell"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

// Shell is what the commands have around them. All but ReadSecret is required.
type Shell struct {
	*shell.Shell
	Options     *Options
	Environment func() Environment
	Prepare     func() error // checks the output format
	// ReadSecret reads from a terminal without echo. nil: no terminal.
	ReadSecret func() (string, error)
}

// said is an answer that is an object, or one line about it.
func said(object any, name, line string, args ...any) output.Answer {
	return output.Answer{Object: object, Names: []string{name}, Said: fmt.Sprintf(line, args...)}
}

// ask sends a request with the timeout of a request.
func ask[T any](s *Shell, cmd *cobra.Command, f func(context.Context, api.Access) (T, error)) (T, error) {
	return shell.Request(cmd.Context(), s.Shell, func(ctx context.Context, c *api.Client) (T, error) { return f(ctx, c.Access) })
}

// answer sends a request and prints the answer.
func answer[T any](s *Shell, cmd *cobra.Command, f func(context.Context, api.Access) (T, error), show func(T) output.Answer) error {
	v, err := ask(s, cmd, f)
	if err != nil {
		return err
	}
	return s.Show(cmd, show(v))
}

// remove removes an object of a kind, and reports that.
func (s *Shell) remove(cmd *cobra.Command, kind, name, done string, f func(context.Context, api.Access) error) error {
	return answer(s, cmd, func(ctx context.Context, c api.Access) (any, error) { return nil, f(ctx, c) }, func(any) output.Answer {
		return said(map[string]string{strings.ReplaceAll(kind, " ", "_"): name, "action": done}, name, "%s %s %s", kind, name, done)
	})
}

// secret reads a secret: the first line of a file, or of standard input, -. From a terminal it is
// read twice, and not shown.
func (s *Shell) secret(cmd *cobra.Command, path string) (string, error) {
	if path != "-" || s.ReadSecret == nil {
		text, err := readSecret(path, cmd.InOrStdin())
		if err != nil {
			return "", usage(err)
		}
		return text, nil
	}
	var typed [2]string
	for i, prompt := range []string{"Password: ", "Again: "} {
		_, _ = io.WriteString(cmd.ErrOrStderr(), prompt) // the answer counts
		text, err := s.ReadSecret()
		_, _ = io.WriteString(cmd.ErrOrStderr(), "\n")
		if err != nil {
			return "", fmt.Errorf("read password: %w", err)
		}
		typed[i] = text
	}
	if typed[0] != typed[1] || typed[0] == "" {
		return "", shell.Usage("the passwords differ, or are empty: nothing was changed")
	}
	return typed[0], nil
}

// need refuses other arguments than those that are named.
func (s *Shell) need(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return shell.Usage("%s requires %s, not %q; usage: %s", cmd.CommandPath(), what, strings.Join(args, " "), cmd.UseLine())
		}
		return nil
	}
}

// Commands returns the groups of commands.
func (s *Shell) Commands() []*cobra.Command {
	return []*cobra.Command{s.users(), s.tokens(), s.rules(), s.access(), s.contexts()}
}

// group makes a command that holds others.
func (s *Shell) group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, RunE: s.Group}
	cmd.AddCommand(commands...)
	return cmd
}

func yesOr(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}
