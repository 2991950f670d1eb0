package checks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/brokerd/brokerd/internal/bundle"
	"github.com/brokerd/brokerd/internal/fan"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/units"
)

// Host is the program that contains the commands.
type Host struct {
	Client  func() *api.Client
	Timeout func() time.Duration         // of an answer
	HTTP    func() (*http.Client, error) // for requests to single nodes; a nil client is the default one
	Secure  func() bool                  // nodes are asked at their HTTPS addresses
	Now     func() time.Time

	NoArgs   cobra.PositionalArgs
	Complete cobra.CompletionFunc // of a channel
	// Duration, Size and Count add a flag.
	Duration func(f *pflag.FlagSet, p *time.Duration, name, usage string)
	Size     func(f *pflag.FlagSet, p *units.Size, name, usage string)
	Count    func(f *pflag.FlagSet, p *int64, name, usage string)
	// Channel reads the channel to check from the arguments.
	Channel func(cmd *cobra.Command, args []string) (topic, channel string, err error)
	// Explain describes the error of a request, about a channel or not, and returns the state
	// that it means. usage: the command line is wrong, or the user interrupted.
	Explain func(ctx context.Context, topic, channel string, err error) (why string, s State, usage bool)
	// Show prints a result in one of the forms, and returns the error that sets
	// the exit code.
	Show func(cmd *cobra.Command, r *Result, form string) error
}

// Command returns the command check, including the subcommand that checks a
// node.
func Command(node *cobra.Command, h *Host) *cobra.Command {
	cmd := &cobra.Command{Use: "check", Short: "Check one thing, for monitoring and probes"}
	cmd.Long = `Check one thing, as a plugin of Nagios and its like: one line that says what was found, with the figures behind
a |, and a line for each detail. The exit code is 0 (OK), 1 (WARNING), 2 (CRITICAL) or 3 (UNKNOWN), and no other.
A cluster that does not respond is CRITICAL, a command line that makes no sense UNKNOWN. -o json has the same as an
object, and --format prometheus as metrics for the textfile collector of node_exporter.`
	cmd.AddCommand(node, h.cluster(), h.raft(), h.channel(), h.disk(), h.cert())
	return cmd
}

// checking makes a command print the result of a check. If the check fails, the error is its result.
// limits validates the limits of the command line; nil: there are none.
func (h *Host) checking(cmd *cobra.Command, what string, limits func() error, run func(ctx context.Context, args []string) (Result, error)) *cobra.Command {
	if cmd.Args == nil {
		cmd.Args = h.NoArgs
	}
	form := FormNagios
	cmd.Flags().StringVar(&form, "format", form, "`FORM` of the text: nagios, prometheus, or json, which is -o json")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(Forms(), cobra.ShellCompDirectiveNoFileComp)) // the flag is set
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if limits != nil {
			if err := limits(); err != nil {
				return api.Errorf(failure.Usage, "%w", err)
			}
		}
		r, err := run(cmd.Context(), args)
		if err != nil {
			topic, channel := "", ""
			if len(args) > 0 {
				topic, channel, _ = h.Channel(cmd, args)
			}
			why, state, usage := h.Explain(cmd.Context(), topic, channel, err)
			if usage {
				return err
			}
			r = failed(what, state, why)
		}
		return h.Show(cmd, &r, form)
	}
	return cmd
}

// ask sends a request to the cluster with the timeout of the command.
func ask[T any](ctx context.Context, h *Host, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, h.Timeout())
	defer cancel()
	return f(ctx)
}

func (h *Host) cluster() *cobra.Command {
	return h.checking(&cobra.Command{
		Use:   "cluster",
		Short: "Check the health of the cluster",
		Long: `Check the health of the cluster, as brokerctl cluster health tells it: WARNING if it is degraded, which is that it
serves with less safety than it should have, and CRITICAL if it is unhealthy or no node responds.`,
		Example: `  brokerctl check cluster`,
	}, "cluster", nil, func(ctx context.Context, _ []string) (Result, error) {
		health, err := ask(ctx, h, h.Client().Health)
		if err != nil {
			return Result{}, err
		}
		c, err := ask(ctx, h, h.Client().Cluster)
		if err != nil {
			return Result{}, err
		}
		return cluster(health, c), nil
	})
}

func (h *Host) raft() *cobra.Command {
	return h.checking(&cobra.Command{
		Use:   "raft",
		Short: "Check that the metadata has a leader and a quorum",
		Long: `Check that the metadata has a leader and a quorum: CRITICAL if it has not, so that nothing can be created or
changed; WARNING if one more failure leads there, a node does not answer, or one is far behind.`,
		Example: `  brokerctl check raft`,
	}, "raft", nil, func(ctx context.Context, _ []string) (Result, error) {
		a, err := ask(ctx, h, h.Client().Raft)
		if err != nil {
			return Result{}, err
		}
		return raft(a), nil
	})
}

func (h *Host) channel() *cobra.Command {
	var limits channelLimits
	cmd := &cobra.Command{
		Use:   "channel TOPIC/CHANNEL",
		Short: "Check that a channel is not far behind",
		Long: `Check that a channel is not far behind: CRITICAL if more than --max-lag messages wait, the oldest unfinished
one is older than --max-age, it has fewer than --min-consumers, or a partition has no leader; --warn-lag and
--warn-age are for WARNING. Without any limit it is WARNING that messages wait while the channel is paused or has
no consumer. Messages in flight and deferred ones do not wait.`,
		Example: `  brokerctl check channel orders/invoice --max-lag 10k --max-age 5m --warn-age 1m`,
		Args:    cobra.ArbitraryArgs, // parsing the target refuses wrong arguments
	}
	f := cmd.Flags()
	h.Count(f, &limits.CritLag, "max-lag", "CRITICAL if more messages wait")
	h.Count(f, &limits.WarnLag, "warn-lag", "WARNING if more messages wait")
	h.Duration(f, &limits.CritAge, "max-age", "CRITICAL if the oldest unfinished message is older")
	h.Duration(f, &limits.WarnAge, "warn-age", "WARNING if the oldest unfinished message is older")
	f.IntVar(&limits.MinConsumers, "min-consumers", 0, "CRITICAL if there are fewer consumers")
	cmd.ValidArgsFunction = h.Complete
	return h.checking(cmd, "channel", limits.validate, func(ctx context.Context, args []string) (Result, error) {
		topic, channel, err := h.Channel(cmd, args)
		if err != nil {
			return Result{}, err
		}
		c, err := ask(ctx, h, func(ctx context.Context) (*api.Channel, error) { return h.Client().Channel(ctx, topic, channel) })
		if err != nil {
			return Result{}, err
		}
		lag, err := ask(ctx, h, func(ctx context.Context) (*api.Lag, error) { return h.Client().Insights.Lag(ctx, topic, channel) })
		if err != nil {
			return Result{}, err
		}
		if len(lag.Channels) != 1 {
			return Result{}, fmt.Errorf("%d channels answer to %s/%s", len(lag.Channels), topic, channel)
		}
		return Channel(&lag.Channels[0], len(c.Consumers), limits), nil
	})
}

func (h *Host) disk() *cobra.Command {
	var limits diskLimits
	cmd := &cobra.Command{
		Use:   "disk",
		Short: "Check the free space on the disks of all nodes",
		Long: `Check the free space on the disks of all nodes, as their metrics tell it: CRITICAL if a node refuses publishes
because less than its disk-reserve is free, WARNING if less than twice of that is. --crit-free and --warn-free set
higher limits. A node that does not answer is UNKNOWN.`,
		Example: `  brokerctl check disk --warn-free 100GiB`,
	}
	h.Size(cmd.Flags(), &limits.CritFree, "crit-free", "CRITICAL if less `SIZE` is free on a node")
	h.Size(cmd.Flags(), &limits.WarnFree, "warn-free", "WARNING if less `SIZE` is free on a node")
	return h.checking(cmd, "disk", limits.validate, func(ctx context.Context, _ []string) (Result, error) {
		nodes, err := h.scrape(ctx)
		return Disk(nodes, limits), err
	})
}

func (h *Host) cert() *cobra.Command {
	limits := certLimits{Warn: 30 * 24 * time.Hour, Crit: 7 * 24 * time.Hour}
	cmd := &cobra.Command{
		Use:   "cert",
		Short: "Check when certificates and access tokens expire",
		Long: `Check when the TLS certificates that nodes use expire, those for clients and those between nodes, and the first
access token. A node that does not answer is UNKNOWN; a cluster without certificates is OK.`,
		Example: `  brokerctl check cert --warn 30d --crit 7d`,
	}
	h.Duration(cmd.Flags(), &limits.Warn, "warn", "WARNING if one expires within that time")
	h.Duration(cmd.Flags(), &limits.Crit, "crit", "CRITICAL if one expires within that time")
	return h.checking(cmd, "cert", limits.validate, func(ctx context.Context, _ []string) (Result, error) {
		nodes, err := h.scrape(ctx)
		return certificates(nodes, h.Now(), limits), err
	})
}

const (
	scrapesAtOnce = 8
	maxScrape     = 64 << 20
)

// scrape gets the metrics of each node.
func (h *Host) scrape(ctx context.Context) ([]Scraped, error) {
	over, err := h.HTTP()
	if err != nil {
		return nil, err
	}
	if over == nil {
		over = &http.Client{} // ask bounds each request
	}
	c, err := ask(ctx, h, h.Client().Cluster)
	if err != nil {
		return nil, err
	}
	q := bundle.Questioner{Client: h.Client(), HTTP: over, Timeout: h.Timeout(), Secure: h.Secure()}
	all := make([]Scraped, len(c.Nodes))
	places := make([]int, len(all))
	for i := range places {
		places[i] = i
	}
	fan.Out(places, scrapesAtOnce, func(i int) {
		n := &c.Nodes[i]
		ctx, cancel := context.WithTimeout(ctx, h.Timeout())
		defer cancel()
		all[i] = Scraped{Node: n.ID}
		if n.State == api.NodeDown {
			all[i].Err = errors.New("is down")
			return
		}
		var more bool
		all[i].Text, more, all[i].Err = api.Fetch(ctx, over, n.URL(q.Secure), "/metrics", maxScrape)
		if more {
			all[i].Err = fmt.Errorf("its metrics have more than %d bytes", maxScrape)
		}
	})
	return all, nil
}
