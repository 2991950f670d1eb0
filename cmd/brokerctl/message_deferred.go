package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/units"
)

// deferredAtOnce is how many deferred messages one request lists or names.
const deferredAtOnce = 1000

// dueWindow is the range of due times of the messages that a command is about.
type dueWindow struct{ since, until string }

func (w *dueWindow) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&w.since, "since", "", "only messages due at this `TIME` or later, such as 2026-11-21T06:00:00Z, or 2h for in two hours")
	f.StringVar(&w.until, "until", "", "only messages due before this `TIME`")
}

// query returns the query for the window.
func (w *dueWindow) query(now time.Time) (q api.DeferredQuery, err error) {
	if q.Since, err = dueTime("--since", w.since, now); err != nil {
		return q, err
	}
	q.Until, err = dueTime("--until", w.until, now)
	return q, err
}

// dueTime parses a due time: a time, or a duration from now; "" is the zero time.
func dueTime(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := units.ParseTime(text, now.Location()); err == nil {
		return at, nil
	}
	d, err := units.ParseDuration(strings.TrimPrefix(strings.TrimPrefix(text, "-"), "+"))
	if err != nil {
		return time.Time{}, usageError("%s %q is not a valid time: use 2026-11-21T06:00:00Z, or 2h for in two hours", flag, text)
	}
	if strings.HasPrefix(text, "-") {
		d = -d
	}
	return units.ClampTime(now.Add(d)), nil
}

func newMessageDeferredCommand(g *globals) *cobra.Command {
	var w dueWindow
	var n int
	var next string
	cmd := acting(g, &cobra.Command{
		Use:   "deferred TOPIC/CHANNEL",
		Short: "List the deferred messages of a channel in the order in which they are due",
		Long: `List the deferred messages of a channel, the next due first, and the reason: the publisher deferred
them, a consumer requeued them with a delay, or the channel's backoff delays them.`,
		Example: `  brokerctl message deferred orders/invoice --until 1h
  brokerctl message deferred orders/invoice -n 10000 -o ndjson`,
	}, func(cmd *cobra.Command, at target) error {
		if n < 1 {
			return usageError("-n must be above 0")
		}
		q, err := w.query(g.env.now())
		if err != nil {
			return err
		}
		q.Next = next
		return listDeferred(cmd, g, at, q, n)
	})
	w.addFlags(cmd)
	cmd.Flags().IntVarP(&n, "n", "n", 100, "the first `N`")
	cmd.Flags().StringVar(&next, "next", "", "continue a previous list at the `POSITION` it printed")
	return cmd
}

func listDeferred(cmd *cobra.Command, g *globals, at target, q api.DeferredQuery, n int) error {
	all := &api.DeferredList{Topic: at.topic, Channel: at.channel, Messages: []api.DeferredMessage{}}
	for {
		q.Max = min(deferredAtOnce, n-len(all.Messages))
		page, err := query(cmd.Context(), g, func(ctx context.Context) (*api.DeferredList, error) {
			return api.DeferredOf(g.client).List(ctx, at.topic, at.channel, q)
		})
		if err != nil {
			return err
		}
		all.Messages = append(all.Messages, page.Messages...)
		all.Total, all.Next, q.Next = page.Total, page.Next, page.Next
		if page.Next == "" || len(all.Messages) >= n {
			break
		}
	}
	t := output.NewTable("DUE", "ID", "P/SEQ", "ATTEMPTS", "BYTES", "WHY")
	return g.show(cmd, output.List(all, all.Messages, func(m api.DeferredMessage) string { return m.ID }, t, func(m api.DeferredMessage) []any {
		return []any{output.Time(m.Due), m.ID, place(api.Peeked{Partition: m.Partition, Seq: m.Seq}), m.Attempts, bytesText(m.Bytes), m.Why}
	}, func(p *output.Page) {
		if all.Next != "" && !g.quiet && all.Total > len(all.Messages) {
			p.Line("")
			p.Line("%s of %s deferred; more with --next %s", count(len(all.Messages)), count(all.Total), all.Next)
		}
	}))
}

func bytesText(n int) string {
	if n < 0 {
		return "unreadable"
	}
	return count(n)
}

// rescheduling is a command that changes deferred messages.
type rescheduling struct {
	verb   string // cancel or advance
	would  string // the action in the conditional, for dry runs
	about  oneMessage
	window dueWindow
	all    bool
	dry    bool
}

func newMessageCancelCommand(g *globals) *cobra.Command {
	r := rescheduling{verb: "cancel", would: "cancelled and not delivered by this channel"}
	return r.command(g, `Cancel deferred messages of a channel: they are finished without delivery. Other channels are not affected.`)
}

func newMessageAdvanceCommand(g *globals) *cobra.Command {
	r := rescheduling{verb: "advance", would: "delivered now"}
	return r.command(g, `Deliver deferred messages of a channel now, in log order. Other channels are not affected.`)
}

func (r *rescheduling) command(g *globals, long string) *cobra.Command {
	short, _, _ := strings.Cut(long, ":")
	if r.verb == "advance" {
		short = "Deliver deferred messages of a channel now"
	}
	cmd := &cobra.Command{
		Use:   r.verb + " ID",
		Short: short,
		Long: long + `
Name the messages by their ids, or places PARTITION/SEQ with --topic, and --channel. Or name no message but the
channel, and which of its deferred messages are meant: --until, --since or --all. That asks first.`,
		Example: fmt.Sprintf(`  brokerctl message %[1]s 2b839aa76e4d64b7 --topic reminders --channel mail
  brokerctl message %[1]s reminders/mail --until 2h --dry-run
  brokerctl message %[1]s reminders/mail --all --yes`, r.verb),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return r.run(cmd, g, args) }
	f := cmd.Flags()
	f.StringVar(&r.about.topic, "topic", "", "`TOPIC` of the messages named by id (default: the one that has such ids)")
	f.StringVar(&r.about.channel, "channel", "", "`CHANNEL` that defers them")
	r.window.addFlags(cmd)
	f.BoolVar(&r.all, "all", false, "all deferred messages of the channel")
	f.BoolVar(&r.dry, "dry-run", false, "count them without changing anything")
	return cmd
}

func (r *rescheduling) run(cmd *cobra.Command, g *globals, args []string) error {
	at := target{topic: r.about.topic, channel: r.about.channel}
	if at.topic == "" && at.channel == "" {
		var err error
		if at, err = channelForm.parse(cmd, args); err != nil {
			return err
		}
		args = nil
	}
	windowed := r.window != dueWindow{}
	switch {
	case at.channel == "":
		return usageError("give the --channel that defers them")
	case at.topic == "" && len(args) == 0:
		return usageError("name the channel as TOPIC/CHANNEL, or give --topic")
	case len(args) > 0 && (windowed || r.all):
		return usageError("give either ids, or --until, --since or --all")
	case len(args) == 0 && windowed == r.all:
		return usageError("name the deferred messages of %s/%s: by ids, by --until and --since, or by --all", at.topic, at.channel)
	}
	if at.topic == "" {
		if _, err := r.about.find(cmd.Context(), g, args[0]); err != nil {
			return err
		}
		at.topic = r.about.topic
	}
	return r.change(cmd, g, at, args)
}

// change performs the action on the named messages, or on those of the window.
func (r *rescheduling) change(cmd *cobra.Command, g *globals, at target, names []string) error {
	q, err := r.window.query(g.env.now())
	if err != nil {
		return err
	}
	req := api.Reschedule{All: r.all, DryRun: r.dry}
	if !q.Since.IsZero() {
		req.Since = &q.Since
	}
	if !q.Until.IsZero() {
		req.Until = &q.Until
	}
	if len(names) > deferredAtOnce {
		return usageError("%d messages named, the maximum is %d", len(names), deferredAtOnce)
	}
	for _, text := range names {
		id, err := r.about.id(cmd.Context(), g, text)
		if err != nil {
			return err
		}
		req.IDs = append(req.IDs, id)
	}
	if len(names) == 0 && !r.dry && !g.yes {
		plan, err := r.ask(cmd, g, at, api.Reschedule{All: req.All, Since: req.Since, Until: req.Until, DryRun: true})
		if err != nil {
			return err
		}
		if plan.Count > 0 {
			warning := plural(plan.Count, "deferred message") + " would be " + r.would + ", which cannot be undone"
			if err := confirmAfter(cmd, g, warning, at.topic+"/"+at.channel); err != nil {
				return err
			}
		}
	}
	done, err := r.ask(cmd, g, at, req)
	if err != nil {
		return err
	}
	if err := r.show(cmd, g, done); err != nil || len(done.NotDeferred) == 0 {
		return err
	}
	e := api.Errorf(failure.NotFound, "not deferred in %s/%s: %s", done.Topic, done.Channel, list(done.NotDeferred))
	e.Hint = "they are ready, in flight, finished or not found: see brokerctl message get"
	if done.Count > 0 {
		return partial(cmd.Context(), e, plural(done.Count, "message")+" "+done.Action)
	}
	return e
}

func (r *rescheduling) ask(cmd *cobra.Command, g *globals, at target, req api.Reschedule) (*api.Rescheduled, error) {
	do := api.DeferredOf(g.client).Cancel
	if r.verb == "advance" {
		do = api.DeferredOf(g.client).Advance
	}
	return query(cmd.Context(), g, func(ctx context.Context) (*api.Rescheduled, error) { return do(ctx, at.topic, at.channel, req) })
}

func (r *rescheduling) show(cmd *cobra.Command, g *globals, d *api.Rescheduled) error {
	return g.show(cmd, output.View{
		Object: d,
		Names:  []string{d.Topic + "/" + d.Channel},
		Text: func(p *output.Page) {
			switch {
			case d.DryRun:
				p.Line("dry run: %s of %s/%s would be %s", plural(d.Count, "deferred message"), d.Topic, d.Channel, r.would)
			case !g.quiet:
				p.Line("%s of %s/%s %s", plural(d.Count, "deferred message"), d.Topic, d.Channel, d.Action)
			}
		},
	})
}
