package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

type channelCreateOptions struct {
	ordered bool
	order   string
	policy  policyOptions
	from    string
	filter  string
	dry     bool
}

func newChannelCreateCommand(g *globals) *cobra.Command {
	var o channelCreateOptions
	cmd := acting(g, &cobra.Command{
		Use:   "create TOPIC/CHANNEL",
		Short: "Create a channel",
		Long: `Create a channel. The first channel of a topic receives all retained messages, later
ones those published from then on, unless --from names another position. Creating an existing channel does nothing.
A channel of an ordered topic has --order strict, unless key is given; none is refused.`,
	}, func(cmd *cobra.Command, at target) error {
		req := api.CreateChannel{Name: at.channel, Ordered: o.ordered, Filter: o.filter, DryRun: o.dry}
		order, err := orderOf(cmd, o.order)
		if err != nil {
			return err
		}
		if order != nil {
			if req.Order = *order; o.ordered && req.Order != "strict" {
				return usageError("--ordered is --order strict, not --order %s: give one of them", req.Order)
			}
		}
		if req.Policy, err = o.policy.patch(cmd.Flags()); err != nil {
			return err
		}
		if o.from != "" {
			from, err := parseSeek("--from", o.from, g.env.now())
			if err != nil {
				return err
			}
			req.From = &from
		}
		before, err := createdBefore(cmd.Context(), g, at, req.From)
		if err != nil {
			return err
		}
		c, err := query(cmd.Context(), g, func(ctx context.Context) (*api.Channel, error) { return g.client.CreateChannel(ctx, at.topic, req) })
		if err != nil {
			return err
		}
		if note := o.note(c, req.From, before, g.env.now()); note != "" && !g.quiet {
			_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "note: "+note) // an error of stderr cannot be reported
		}
		return g.show(cmd, withDryRun(channelView(c), o.dry))
	})
	cmd.ValidArgsFunction = topicForm.complete(g) // the channel does not exist yet
	cmd.Flags().BoolVar(&o.ordered, "ordered", false, "deliver the messages of a partition one at a time, in order; the same as --order strict")
	orderVar(cmd, &o.order)
	planVar(cmd, &o.dry)
	o.policy.addFlags(cmd.Flags(), "")
	cmd.Flags().StringVar(&o.filter, "filter", "", "deliver only the messages that `EXPR` chooses"+filterExample)
	cmd.Flags().StringVar(&o.from, "from", "", "`POSITION` at which a new channel begins: start, end, a time, an age such as -2h, or an offset")
	return cmd
}

// createdBefore reports whether a channel exists that is to be created at a position, which an existing one ignores.
func createdBefore(ctx context.Context, g *globals, at target, from *api.Seek) (bool, error) {
	if from == nil {
		return false, nil
	}
	_, err := query(ctx, g, func(ctx context.Context) (*api.Channel, error) { return g.client.Channel(ctx, at.topic, at.channel) })
	if api.CodeOf(err) == failure.NotFound {
		return false, nil
	}
	return true, err
}

// note says that a channel is not at the position that --from names; "" otherwise.
func (o *channelCreateOptions) note(c *api.Channel, from *api.Seek, before bool, now time.Time) string {
	switch {
	case from == nil:
		return ""
	case before:
		return fmt.Sprintf("the channel exists, and --from %s does not move it; to move it: brokerctl channel seek %s/%s --to %[1]s", o.from, c.Topic, c.Name)
	}
	plan := &api.MovePlan{}
	for _, q := range c.Partitions {
		plan.Partitions = append(plan.Partitions, api.PartitionMove{Partition: q.Partition, Target: q.Confirmed})
	}
	return elsewhere(plan, "--from "+o.from, *from, now)
}

type channelAlterOptions struct {
	policy policyOptions
	order  string
	filter string
	all    bool
	dry    bool
}

func newChannelAlterCommand(g *globals) *cobra.Command {
	var o channelAlterOptions
	cmd := acting(g, &cobra.Command{
		Use:   "alter TOPIC/CHANNEL",
		Short: "Change settings of a channel",
		Long: `Change the given settings and keep the others. They take effect at once, also for messages that wait
already. The value default restores the setting of the topic or the cluster.

A filter is evaluated before each delivery of a message. A message that it does not choose is finished for the channel,
and stays finished when the filter is altered; after a seek back it is evaluated again. ` + filterLong,
		Example: `  brokerctl channel alter orders/invoice --max-attempts 5 --on-exhausted dead-letter
  brokerctl channel alter orders/invoice --backoff 1s..10m --rate 100/s
  brokerctl channel alter orders/invoice --order key
  brokerctl channel alter orders/invoice --filter 'header.type == "order" && key != ""'`,
	}, func(cmd *cobra.Command, at target) error {
		var req api.AlterChannel
		var err error
		if req.Policy, err = o.policy.patch(cmd.Flags()); err != nil {
			return err
		}
		if req.Order, err = orderOf(cmd, o.order); err != nil {
			return err
		}
		if o.all {
			req.Filter = new(string)
		}
		setIf(cmd.Flags(), "filter", &req.Filter, o.filter)
		if req == (api.AlterChannel{}) {
			return usageError("nothing to change: see %s --help for the settings", cmd.CommandPath())
		}
		req.DryRun = o.dry
		return answer(cmd, g, func(ctx context.Context) (*api.Channel, error) {
			return g.client.AlterChannel(ctx, at.topic, at.channel, req)
		}, func(c *api.Channel) output.View { return withDryRun(channelView(c), o.dry) })
	})
	planVar(cmd, &o.dry)
	o.policy.addFlags(cmd.Flags(), "")
	orderVar(cmd, &o.order)
	cmd.Flags().StringVar(&o.filter, "filter", "", "from now on, deliver only the messages that `EXPR` chooses; '' removes the filter")
	cmd.Flags().BoolVar(&o.all, "no-filter", false, "deliver all messages again; the same as --filter ''")
	cmd.MarkFlagsMutuallyExclusive("filter", "no-filter")
	return cmd
}

func orderVar(cmd *cobra.Command, p *string) {
	cmd.Flags().StringVar(p, "order", "", "`ORDER` of delivery (none, strict, key): strict delivers the messages of a partition one at a time, key those of one key")
}

// orderOf returns the requested order; nil if none.
func orderOf(cmd *cobra.Command, order string) (*string, error) {
	if !cmd.Flags().Changed("order") {
		return nil, nil
	}
	if order != "none" && order != "strict" && order != "key" {
		return nil, usageError("--order is %q, must be none, strict or key", order)
	}
	return &order, nil
}

// policyOptions are the policy flags of a channel. prefix precedes the names of the flags; with a
// prefix, they are the defaults of a topic's channels.
type policyOptions struct {
	prefix, maxAttempts, onExhausted, onExpired, deadLetterTopic, backoff, rate string
}

// inherit is the flag value that restores the setting of the topic or the cluster.
const inherit = "default"

func (o *policyOptions) addFlags(f *pflag.FlagSet, prefix string) {
	o.prefix = prefix
	f.StringVar(&o.maxAttempts, prefix+"max-attempts", "", "deliver a message `N` times at most (1 to 4000, none or default)")
	f.StringVar(&o.onExhausted, prefix+"on-exhausted", "", "`OUTCOME` for a message after its last attempt (dead-letter, drop, block or default)")
	f.StringVar(&o.onExpired, prefix+"on-expired", "", "`OUTCOME` for a message that has expired (dead-letter, drop or default)")
	f.StringVar(&o.deadLetterTopic, prefix+"dead-letter-topic", "", "`TOPIC` for dead letters; by default <topic>.<channel>.dlq")
	f.StringVar(&o.backoff, prefix+"backoff", "", "`DELAY` before a redelivery, doubled with each attempt, such as 1s..10m (off or default)")
	f.StringVar(&o.rate, prefix+"rate", "", "deliver at most `N/s` messages a second over all nodes (none or default)")
}

// patch returns the settings that were given; nil: none.
func (o *policyOptions) patch(f *pflag.FlagSet) (*api.PolicyPatch, error) {
	var p api.PolicyPatch
	given := false
	for _, x := range []struct {
		flag, field, value string
		set                func(string) error
	}{
		{"max-attempts", "max_attempts", o.maxAttempts, numberInto(&p.MaxAttempts, "")},
		{"on-exhausted", "on_exhausted", o.onExhausted, oneOf(&p.OnExhausted, "dead-letter", "drop", "block")},
		{"on-expired", "on_expired", o.onExpired, oneOf(&p.OnExpired, "dead-letter", "drop")},
		{"dead-letter-topic", "dead_letter_topic", o.deadLetterTopic, textInto(&p.DeadLetterTopic)},
		{"backoff", "backoff", o.backoff, textInto(&p.Backoff)},
		{"rate", "rate", o.rate, numberInto(&p.Rate, "/s")},
	} {
		if !f.Changed(o.prefix + x.flag) {
			continue
		}
		given = true
		if x.value == inherit {
			p.Reset = append(p.Reset, x.field)
		} else if err := x.set(x.value); err != nil {
			return nil, usageError("--%s%s %q: %w", o.prefix, x.flag, x.value, err)
		}
	}
	if !given {
		return nil, nil
	}
	return &p, nil
}

func textInto(to **string) func(string) error {
	return func(text string) error {
		*to = &text
		return nil
	}
}

// oneOf parses one of several words.
func oneOf(to **string, words ...string) func(string) error {
	return func(text string) error {
		if !slices.Contains(words, text) {
			return fmt.Errorf("must be %s or %s", strings.Join(words, ", "), inherit)
		}
		*to = &text
		return nil
	}
}

// numberInto parses a number with an optional unit; none is 0.
func numberInto(to **int, unit string) func(string) error {
	return func(text string) error {
		n := 0
		if text != "none" {
			parsed, err := strconv.ParseUint(strings.TrimSuffix(text, unit), 10, 31)
			if err != nil {
				return errNumber
			}
			n = int(parsed)
		}
		*to = &n
		return nil
	}
}

var errNumber = errors.New("must be a whole number, none or default")

// filterExample is the end of the help text of a filter flag.
const filterExample = `, such as 'header.type == "order" && key != ""'`

// filterLong describes filters.
const filterLong = `A filter is an expression over header (an object, as
header.type), key, tag, partition, timestamp (compare with date("2026-11-25T10:00:00Z")), attempts and size (bytes
of the body), with ==, !=, <, <=, >, >=, &&, ||, !, in, contains, startsWith, endsWith, matches "REGEXP" and ??.
What cannot be evaluated, as where a field is missing, is not chosen.`

// filterVar adds the flag with which a command chooses messages.
func filterVar(f *pflag.FlagSet, p *string, what string) {
	f.StringVar(p, "filter", "", "only "+what+" that `EXPR` chooses"+filterExample)
}

// filterTable shows the filter of a channel, if it has or had one.
func filterTable(p *output.Page, c *api.Channel) {
	if c.Filter == "" && c.FilteredTotal == 0 {
		return
	}
	t := output.NewTable("FILTER", "LEFT OUT", "NOT EVALUATED")
	t.Row(cmp.Or(c.Filter, "-"), count(c.FilteredTotal), count(c.FilterErrorsTotal))
	p.Table(t)
	p.Line("")
}

// policyTable shows the policy of a channel and its counters.
func policyTable(p *output.Page, c *api.Channel) {
	t := output.NewTable("MAX ATTEMPTS", "ON EXHAUSTED", "ON EXPIRED", "BACKOFF", "RATE", "EXHAUSTED", "BACKING OFF", "DEAD-LETTERED", "DROPPED", "+EXPIRED", "+DEAD-LETTER TOPIC", "+BACKED OFF")
	exhausted := c.Policy.OnExhausted
	if c.Policy.MaxAttempts == 0 {
		exhausted = "-"
	}
	t.Row(numberOr(c.Policy.MaxAttempts, ""), exhausted, cmp.Or(c.Policy.OnExpired, "-"), c.Policy.Backoff, numberOr(c.Policy.Rate, "/s"),
		count(c.Exhausted), count(c.BackingOff), count(c.DeadLetteredTotal), count(c.DroppedTotal), count(c.Expired), c.Policy.DeadLetterTopic, count(c.BackedOffTotal))
	p.Table(t)
}

// numberOr formats a number with its unit; 0: none.
func numberOr(n int, unit string) string {
	if n == 0 {
		return "none"
	}
	return strconv.Itoa(n) + unit
}
