package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

func newChannelExplainCommand(g *globals) *cobra.Command {
	return acting(g, &cobra.Command{
		Use:   "explain TOPIC/CHANNEL",
		Short: "Explain why a channel makes no progress",
		Long: `Report whether a channel makes progress, and what delays its messages.

The broker observes the channel for up to a second. Check the causes in the order in which they are listed.`,
	}, func(cmd *cobra.Command, at target) error {
		return answer(cmd, g, func(ctx context.Context) (*api.Explanation, error) {
			return g.client.ExplainChannel(ctx, at.topic, at.channel)
		}, explanationView)
	})
}

func explanationView(e *api.Explanation) view {
	return view{object: e, names: []string{e.Topic + "/" + e.Channel}, text: func(p *page) { explanation(p, e) }}
}

// explanation prints the result and the causes, in order.
func explanation(p *page, e *api.Explanation) {
	verdict := "is moving"
	switch {
	case !e.Moving:
		verdict = "is not moving"
	case e.Ready+e.InFlight+e.Deferred == 0:
		verdict = "has nothing to deliver"
	}
	p.line("%s/%s %s: %s ready, %s in flight, %s deferred, the oldest for %s; consumers: %d", e.Topic, e.Channel, verdict,
		count(e.Ready), count(e.InFlight), count(e.Deferred), age(api.Duration(time.Duration(e.OldestAgeMS)*time.Millisecond)), e.Consumers)
	for i, c := range e.Causes {
		p.line("%2d. %s", i+1, c.What)
		p.line("    -> %s", c.Do)
	}
	if !e.Moving && len(e.Causes) == 0 {
		p.line("No cause found. Repeat the command, and see brokerctl channel describe.")
	}
	p.missing(e.MissingNodes)
}
