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
)

// followEvery is the polling interval of events -f.
const followEvery = time.Second

// journalOptions select entries of the audit log or events.
type journalOptions struct {
	since, actor, object string
	max                  int
	follow               bool
}

func (o *journalOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.since, "since", "", "only entries since `TIME`, or since an age such as 2h")
	f.StringVar(&o.object, "object", "", "only entries about this `OBJECT`: a topic, one of its channels or partitions, or a node")
	o.max = 100
	f.IntVarP(&o.max, "max", "n", o.max, "the last `N`")
}

func (o *journalOptions) request(now time.Time) (api.JournalOptions, error) {
	req := api.JournalOptions{Actor: o.actor, Object: o.object, Max: o.max}
	if o.max < 1 {
		return req, usageError("--max must be at least 1")
	}
	if o.since == "" {
		return req, nil
	}
	text := o.since
	if !strings.Contains(text, "-") {
		text = "-" + text // a duration before now
	}
	at, err := parseSeek("--since", text, now)
	if err != nil || at.Time == nil {
		return req, usageError("--since %q is not a time such as 2026-11-21T06:00:00Z, or an age such as 2h", o.since)
	}
	req.Since = *at.Time
	return req, nil
}

// mayHaveMore tells of a list that has as many entries as were asked for.
func (o *journalOptions) mayHaveMore(n int) func(p *output.Page) {
	return func(p *output.Page) {
		if n >= o.max {
			p.Line("\nonly the last %d shown; there may be older ones: -n N", n)
		}
	}
}

func newAuditCommand(g *globals) *cobra.Command {
	var o journalOptions
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Show operators' changes: who, when, what and why",
		Long:  helpOf("audit-log"),
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			req, err := o.request(g.env.now())
			if err != nil {
				return err
			}
			ask := func(ctx context.Context) (*api.AuditLog, error) { return g.client.Insights.Audit(ctx, req) }
			return answer(cmd, g, ask, func(log *api.AuditLog) output.View {
				t := output.NewTable("AT", "ACTOR", "VERB", "OBJECT", "STATUS", "REASON", "+REQUEST", "+NODE", "+AGENT")
				return output.List(log, log.Acts, func(a api.Act) string { return fmt.Sprint(a.Index) }, t, func(a api.Act) []any {
					who := strings.TrimSpace(a.Identity + " " + a.Actor)
					return []any{output.Time(a.At), who, a.Verb, a.Object, a.Status, a.Reason, a.Request, a.Node, a.Agent}
				}, o.mayHaveMore(len(log.Acts)))
			})
		},
	}
	o.addFlags(cmd)
	cmd.Flags().StringVar(&o.actor, "actor", "", "only entries whose address or identity contains `ACTOR`")
	return newGroup("audit", "Show what operators did", cmd)
}

func newEventsCommand(g *globals) *cobra.Command {
	var o journalOptions
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show events of the cluster",
		Long:  helpOf("events"),
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return events(cmd, g, o) },
	}
	o.addFlags(cmd)
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "keep running and print new events")
	return cmd
}

func events(cmd *cobra.Command, g *globals, o journalOptions) error {
	req, err := o.request(g.env.now())
	if err != nil {
		return err
	}
	ask := func(ctx context.Context) (*api.EventLog, error) { return g.client.Insights.Events(ctx, req) }
	if !o.follow {
		return answer(cmd, g, ask, func(log *api.EventLog) output.View { return eventsView(log).Then(o.mayHaveMore(len(log.Events))) })
	}
	ctx := cmd.Context()
	log, err := query(ctx, g, ask)
	if err != nil {
		return err
	}
	if c, err := query(ctx, g, g.client.Cluster); err == nil { // else with the given addresses
		know(g.client, c) // what happens to the node in use is an event, too
	}
	for silent := false; ; {
		for _, e := range log.Events {
			req.After = max(req.After, e.Index)
			if err := g.show(cmd, eventLine(e)); err != nil {
				return err
			}
		}
		if req.Max = 0; req.After > 0 { // otherwise older events would follow
			req.Since = time.Time{}
		}
		if g.env.pause(ctx, followEvery); ctx.Err() != nil {
			return nil
		}
		log, err = query(ctx, g, ask)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil && silent:
			cmd.PrintErrln("the cluster responds again")
		case err == nil:
		case api.CodeOf(err) != failure.Unavailable:
			return err
		case !silent:
			cmd.PrintErrf("%v: retrying\n", err)
		}
		if silent = err != nil; silent {
			log = &api.EventLog{}
		}
	}
}

// know adds the nodes of a cluster to those that a client asks.
func know(client *api.Client, c *api.Cluster) {
	for _, n := range c.Nodes {
		client.Know(n.HTTPAddress)
	}
}

// eventLine shows one event of a stream.
func eventLine(e api.Event) output.View {
	return output.View{Object: e, Names: []string{fmt.Sprint(e.Index)}, Text: func(p *output.Page) {
		p.Line("%s  %-20s  %s  %s", output.Time(e.At), e.Kind, e.Object, e.What)
	}}
}

func eventsView(log *api.EventLog) output.View {
	return output.List(log, log.Events, func(e api.Event) string { return fmt.Sprint(e.Index) }, output.NewTable("AT", "KIND", "OBJECT", "WHAT"),
		func(e api.Event) []any { return []any{output.Time(e.At), e.Kind, e.Object, e.What} })
}

// plainReason converts a text to a valid header value.
func plainReason(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}
