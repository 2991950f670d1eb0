package settings

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/internal/shell"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/units"
)

// ConfigCommand returns the command that shows the settings of nodes.
func ConfigCommand(s *shell.Shell) *cobra.Command {
	var o choice
	var node string
	cmd := &cobra.Command{
		Use:   "config [SETTING...]",
		Short: "Show the settings of the nodes, and where they differ",
		Long: `Show the settings with which the nodes run, and where each was set: those that are not at their default on every
node, or the named ones. A setting with another value on another node has a line for each value. --differing shows only
those, without the settings that differ between nodes anyway (names, directories and addresses), and exits with code 1
if there are any. The settings of topics and channels are not among them: topic describe, channel describe.`,
		Example: `  brokerctl cluster config
  brokerctl cluster config --differing
  brokerctl cluster config disk-reserve max-msg-size
  brokerctl cluster config --node n2 --all`,
		RunE: func(cmd *cobra.Command, names []string) error {
			all, err := ask(cmd, s, node)
			if err != nil {
				return err
			}
			return showSettings(cmd, s, all, o, names)
		},
	}
	f := cmd.Flags()
	f.StringVar(&node, "node", "", "only this `NODE`")
	f.BoolVar(&o.all, "all", false, "all settings, also those at their default")
	f.BoolVar(&o.differing, "differing", false, "only settings that differ between nodes; exit code 1 if there are any")
	cmd.MarkFlagsMutuallyExclusive("all", "differing")
	_ = cmd.RegisterFlagCompletionFunc("node", s.Nodes) // the flag exists
	return cmd
}

// ask requests the settings of a node, or of all.
func ask(cmd *cobra.Command, s *shell.Shell, node string) (*api.ClusterSettings, error) {
	return shell.Request(cmd.Context(), s, func(ctx context.Context, c *api.Client) (*api.ClusterSettings, error) {
		return c.Settings.All(ctx, node)
	})
}

func showSettings(cmd *cobra.Command, in *shell.Shell, all *api.ClusterSettings, o choice, names []string) error {
	rows, unknown := compare(all.Nodes, o, names)
	if unknown != "" {
		return api.Errorf(failure.NotFound, "no setting is named %q: brokerd --help lists them", unknown)
	}
	kept := make([]api.NodeSettings, 0, len(all.Nodes))
	a := output.Answer{Object: all, Names: []string{}, Header: []string{"SETTING", "VALUE", "NODES", "SET BY"}, Result: true}
	for _, n := range all.Nodes {
		n.Settings = slices.DeleteFunc(n.Settings, func(s api.Setting) bool {
			return !slices.ContainsFunc(rows, func(r row) bool { return r.name == s.Name })
		})
		kept = append(kept, n)
		a.Lines = append(a.Lines, n)
		a.Names = append(a.Names, n.Node)
	}
	all.Nodes = kept
	for _, r := range rows {
		a.Rows = append(a.Rows, []any{r.name, shown(r.value), strings.Join(r.nodes, ","), strings.Join(r.sources, ", ")})
	}
	if len(rows) == 0 {
		a.Header, a.Said = nil, "all settings have their defaults"
		if o.differing {
			a.Said = fmt.Sprintf("no setting differs between %d nodes", len(all.Nodes))
		}
	}
	if err := in.Show(cmd, a); err != nil {
		return err
	}
	switch {
	case len(all.MissingNodes) > 0:
		return api.Errorf(failure.Partial, "%d nodes did not respond, their settings are missing: %s", len(all.MissingNodes), strings.Join(all.MissingNodes, " "))
	case o.differing && len(rows) > 0:
		return api.Errorf(failure.Failed, "settings differ between nodes")
	}
	return nil
}

// shown prints a value, so that none is invisible.
func shown(value string) string {
	if value == "" {
		return `""`
	}
	return value
}

// defaultFor is how long a changed log level lasts by default, so that it need not be changed back.
const defaultFor = 10 * time.Minute

// LogLevelCommand returns the command that shows or changes the log level of a node.
func LogLevelCommand(s *shell.Shell) *cobra.Command {
	lasts := defaultFor
	cmd := &cobra.Command{
		Use:   "log-level NODE [debug|info|warn|error]",
		Short: "Show or change what a node logs, for a time",
		Long: `Show the log level of a node, or change it without a restart. After --for, by default 10 minutes, the configured
level applies again; with --for 0 it does so when the node restarts or reloads its configuration. At debug, a busy node
may log many lines a second.`,
		Example: `  brokerctl node log-level n2
  brokerctl node log-level n2 debug --for 5m`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return shell.Usage("node log-level requires a NODE, and optionally a level")
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, start string) ([]cobra.Completion, cobra.ShellCompDirective) {
			switch len(args) {
			case 0:
				return s.Nodes(cmd, args, start)
			case 1:
				return []cobra.Completion{"debug", "info", "warn", "error"}, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
	}
	s.Duration(cmd.Flags(), &lasts, "for", "how long; 0: until the node restarts or reloads its configuration")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 2 {
			l, err := shell.Request(cmd.Context(), s, func(ctx context.Context, c *api.Client) (*api.LogLevel, error) {
				return c.Settings.SetLogLevel(ctx, args[0], api.SetLogLevel{Level: args[1], ForMS: api.Milliseconds(lasts)})
			})
			if err != nil {
				return err
			}
			return s.Show(cmd, levelAnswer(l, time.Now()))
		}
		if cmd.Flags().Changed("for") {
			return shell.Usage("--for requires a level")
		}
		all, err := ask(cmd, s, args[0])
		if err == nil && len(all.Nodes) == 0 {
			err = api.Errorf(failure.Unavailable, "node %s does not respond", args[0])
		}
		if err != nil {
			return err
		}
		return s.Show(cmd, levelAnswer(&all.Nodes[0].LogLevel, time.Now()))
	}
	return cmd
}

// levelAnswer describes a log level.
func levelAnswer(l *api.LogLevel, now time.Time) output.Answer {
	text := fmt.Sprintf("%s logs at %s", l.Node, l.Level)
	switch {
	case l.Until != nil:
		text += fmt.Sprintf(" for another %s, then at %s", units.ShortDuration(max(0, l.Until.Sub(now))), l.Configured)
	case l.Level != l.Configured:
		text += fmt.Sprintf(" until it restarts or reloads its configuration, then at %s", l.Configured)
	}
	return output.Answer{Object: l, Names: []string{l.Level}, Said: text, Result: true}
}
