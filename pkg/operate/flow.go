package operate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/deadletter"
	"github.com/brokerd/brokerd/pkg/flow"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/topic"
	"github.com/brokerd/brokerd/pkg/units"
)

// Codes of health about channels.
const (
	flowStalled = "channel_stalled"
	flowGrowing = "channel_growing"
)

var askFlow = question[forward.Nothing, []flow.Suspect]{"flow", func(o *Node, _ context.Context, _ forward.Nothing) ([]flow.Suspect, error) {
	now := time.Now()
	var found []flow.Suspect
	for _, h := range o.host.Topics.Hosted() {
		for _, lp := range h.AllLed() {
			for _, c := range lp.Part.Channels() {
				if !c.Flow.Suspicious(now) {
					continue
				}
				if n := c.Stats(); n.Depth > 0 && !n.Paused && !awaitsRedrive(c) {
					found = append(found, c.Flow.Suspect(now, h.Name+"/"+c.Name(), n.Depth, n.Totals()))
				}
			}
		}
	}
	return flow.Merge(found), nil
}}

// awaitsRedrive reports whether the messages of a channel are dead letters that wait for an operator, as no consumer
// takes them: that they wait is no fault of the channel, and how many there are is what `dlq list` says.
func awaitsRedrive(c *topic.Channel) bool {
	return c.Name() == deadletter.Channel && len(c.Consumers()) == 0
}

// noteFlow adds the channels that make no progress, and those that grow, as reported by the leaders
// of their partitions. The one with the most messages is named first.
func noteFlow(f *health.Findings, byNode map[meta.NodeID][]flow.Suspect) {
	var all []flow.Suspect
	for _, told := range byNode {
		all = slices.Concat(all, told)
	}
	for _, s := range flow.Merge(all) {
		switch {
		case s.Stalled > 0:
			f.Add(flowStalled, fmt.Sprintf("channels finished no message of a partition for %s or more although messages wait, see brokerctl channel explain",
				units.FormatDuration(flow.StallAfter)), fmt.Sprintf("%s (%d ready, %s)", s.Name, s.Depth, units.FormatDuration(s.Stalled.Round(time.Second))))
		case s.Rates.Grows(s.Depth):
			f.Add(flowGrowing, fmt.Sprintf("channels with %d messages or more have been growing for %s, see brokerctl channel lag",
				flow.GrowDepth, units.FormatDuration(flow.Long)),
				fmt.Sprintf("%s (%d ready, %.0f/s in, %.0f/s out)", s.Name, s.Depth, s.Rates.InLong, s.Rates.OutLong))
		}
	}
}
