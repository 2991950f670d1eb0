package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os/user"
	"strings"
	"text/template"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/accessctl"
	"github.com/brokerd/brokerd/internal/generate"
	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/internal/words"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

// environment is the program's environment.
type environment struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	now            func() time.Time
	pause          func(context.Context, time.Duration) // sleeps, at most until the context ends
	readSecret     func() (string, error)               // from a terminal, without echo; nil: not possible
	isTerminal     bool                                 // stdin is interactive
	isScreen       bool                                 // stdout is a terminal that can be cleared
}

// globals are the global options, and the values derived from them.
type globals struct {
	env       environment
	addresses []string
	output    string
	timeout   time.Duration
	noHeaders bool
	quiet     bool
	yes       bool
	sortBy    string
	reason    string        // of a change, for the audit log
	watch     time.Duration // 0: once
	access    accessctl.Options

	format  output.Format
	program *template.Template // of -o go-template
	client  *api.Client
}

const (
	addressVariable = "BROKERCTL_ADDR"
	defaultTimeout  = 10 * time.Second
)

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, env environment) int {
	g := &globals{env: env}
	root := newRootCommand(g)
	root.SetArgs(args)
	root.SetIn(env.stdin)
	root.SetOut(env.stdout)
	root.SetErr(env.stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	f := diagnose(ctx, err)
	if !f.shown {
		f.print(env.stderr, output.Format(g.output)) // an invalid format is not JSON either
		if isCheck(cmd) {
			return checkExit(f.exit)
		}
	}
	return f.exit
}

func newRootCommand(g *globals) *cobra.Command {
	root := &cobra.Command{
		Use:               "brokerctl",
		Short:             "Operate a cluster of brokerd",
		Long:              helpOf("brokerctl"),
		Version:           thisProgram().String(),
		Args:              cobra.ArbitraryArgs, // groupOnly refuses them with its own text
		SilenceUsage:      true,
		SilenceErrors:     true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return g.prepare() },
		RunE:              groupOnly,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	g.addFlags(root)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError("%w", err) })
	root.AddCommand(
		newTopicCommand(g), newChannelCommand(g), newMessageCommand(g), newDLQCommand(g), newPartitionCommand(g),
		newClusterCommand(g), newNodeCommand(g), newBenchCommand(g), newVersionCommand(g), newTopCommand(g),
		newAuditCommand(g), newEventsCommand(g), newBackupCommand(g), newSnapshotCommand(g), newRollingCommand(g), newDebugCommand(g),
		newCheckCommand(g), generate.Command(g.httpAddresses),
	)
	root.AddCommand(g.accessShell().Commands()...)
	for _, group := range root.Commands() { // of other packages
		if group.HasSubCommands() && !group.Runnable() {
			group.RunE = groupOnly
		}
	}
	g.makeWatchable(root)
	return root
}

// newGroup returns a command that only contains subcommands.
func newGroup(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, RunE: groupOnly}
	cmd.AddCommand(commands...)
	return cmd
}

// groupOnly prints the help of a group, and refuses unknown subcommands.
func groupOnly(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	err := usageError("%s has no command %q", cmd.CommandPath(), args[0])
	names := listing.Names(cmd.Commands(), (*cobra.Command).Name)
	if near := words.Nearest(args[0], names); near != "" {
		err.answer.Hint = fmt.Sprintf("did you mean %q?", near)
	}
	return err
}

func (g *globals) addFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringArrayVar(&g.addresses, "addr", nil,
		"`URL` of a node; repeat to add more, tried in order if one does not respond\n(default $"+addressVariable+", else "+api.DefaultAddress+")")
	f.StringVarP(&g.output, "output", "o", string(output.FormatTable), "`FORMAT`: "+strings.Join(output.Formats(), ", ")+", "+string(output.FormatTemplate)+"=TEMPLATE")
	g.timeout = defaultTimeout
	durationVar(f, &g.timeout, "timeout", "timeout of a request")
	f.BoolVar(&g.noHeaders, "no-headers", false, "omit table headers")
	f.BoolVar(&g.yes, "yes", false, "answer yes to every question, such as the name of what is to be deleted")
	f.BoolVarP(&g.quiet, "quiet", "q", false, "print results only, no progress messages")
	f.StringVar(&g.sortBy, "sort-by", "", "sort rows by a `COLUMN` of the table or a field of the JSON: numbers descending,\ntexts ascending; a leading - reverses the order")
	f.StringVar(&g.reason, "reason", "", "reason for a change, as `TEXT` for the audit log")
	g.addWatch(root)
	g.access.AddFlags(f)
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(output.Formats(), cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

// prepare validates the global options before any command.
func (g *globals) prepare() error {
	if err := g.prepareFormat(); err != nil {
		return err
	}
	return g.connect()
}

// prepareFormat validates the options that need no node.
func (g *globals) prepareFormat() error {
	f, err := output.ParseFormat(g.output)
	if err != nil {
		return err
	}
	g.format = f
	if f == output.FormatTemplate {
		if g.program, err = output.ParseTemplate(g.output); err != nil {
			return err
		}
	}
	if g.timeout == 0 {
		return usageError("--timeout must be above 0")
	}
	return nil
}

// nodeAddresses returns the addresses given by flag or variable.
func (g *globals) nodeAddresses() []string {
	if len(g.addresses) > 0 {
		return g.addresses
	}
	return strings.FieldsFunc(g.env.getenv(addressVariable), func(r rune) bool { return r == ',' || r == ' ' })
}

// systemUser returns the name of the user who runs the program; "" if it is not known.
func systemUser() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

// connect creates the client. It sends no request.
func (g *globals) connect() error {
	var err error
	if g.addresses, err = g.access.Choose(g.environment()); err != nil {
		return err
	}
	overHTTP, err := g.access.HTTPClient()
	if err != nil {
		return err
	}
	client, err := api.NewClient(api.ClientOptions{Addresses: g.nodeAddresses(), HTTP: overHTTP, UserAgent: userAgent(), Authorization: g.access.Authorization(), Reason: plainReason(g.reason), SystemUser: systemUser()})
	if err != nil {
		return err
	}
	g.client = client
	return nil
}

// query sends a request and returns the result.
func query[T any](ctx context.Context, g *globals, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	return f(ctx)
}

// answer sends a request and prints the result.
func answer[T any](cmd *cobra.Command, g *globals, ask func(context.Context) (T, error), show func(T) output.View) error {
	v, err := query(cmd.Context(), g, ask)
	if err != nil {
		return err
	}
	return g.show(cmd, show(v))
}

// page returns the output of a command.
func (g *globals) page(cmd *cobra.Command) *output.Page {
	return output.NewPage(cmd.OutOrStdout(), g.format == output.FormatWide, !g.noHeaders, g.program)
}

// show prints the result of a command.
func (g *globals) show(cmd *cobra.Command, v output.View) error {
	if g.sortBy != "" {
		v.Order = g.sortBy
	}
	if err := v.Write(g.page(cmd), g.format); err != nil {
		if api.CodeOf(err) == failure.Usage {
			return err
		}
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// noArgs and exactArgs validate the arguments, and name the missing ones.
func noArgs(cmd *cobra.Command, args []string) error { return exactArgs()(cmd, args) }

func exactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			e := usageError("%s requires %s", cmd.CommandPath(), strings.Join(names[len(args):], " and "))
			e.answer.Hint = "usage: " + cmd.UseLine()
			return e
		case len(args) > len(names):
			e := usageError("unexpected argument %[2]q for %[1]s", cmd.CommandPath(), args[len(names)])
			e.answer.Hint = "usage: " + cmd.UseLine()
			if cmd.Flags().Changed("watch") {
				return intervalApart(e, args)
			}
			return e
		}
		return nil
	}
}

// isInterrupted reports whether the user has interrupted the command.
func isInterrupted(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

//go:embed help
var helpTexts embed.FS

// helpOf returns the long help of a command, from the directory help.
func helpOf(command string) string {
	text, _ := helpTexts.ReadFile("help/" + command + ".txt") // a test reads the help of every command
	return strings.TrimSpace(string(text))
}
