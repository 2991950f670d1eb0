package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

// traceOptions select the messages whose traces are shown, in addition to an id.
type traceOptions struct{ topic, channel, traceID, key string }

func newMessageTraceCommand(g *globals) *cobra.Command {
	var o traceOptions
	cmd := &cobra.Command{
		Use:   "trace ID",
		Short: "Show the trace events of a message",
		Long: `Show the trace events of a message, by its id, or its position PARTITION/SEQ with --topic: published,
committed, delivered, requeued and so on until it was finished, with the time, the node and the
client. With --trace-id or --key, show all messages of a topic that were published with it.

Events are recorded only for messages of traced topics: see brokerctl topic alter --trace. They are
collected from all nodes; each time is from the clock of the node that recorded the event.`,
		Example: `  brokerctl topic alter orders --trace on
  brokerctl message trace 2b839aa76e4d64b7
  brokerctl message trace 0/1200 --topic orders -o json
  brokerctl message trace --key customer-7 --topic orders`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return traceMessages(cmd, g, o, strings.Join(args, "")) },
	}
	f := cmd.Flags()
	f.StringVar(&o.topic, "topic", "", "`TOPIC` of the message")
	f.StringVar(&o.channel, "channel", "", "only events of this `CHANNEL`, and those of all channels")
	f.StringVar(&o.traceID, "trace-id", "", "messages published with this `NUMBER` by PUB_TRACE or ##trace_id; decimal, or with 0x")
	f.StringVar(&o.key, "key", "", "messages published with this `KEY`")
	return cmd
}

func traceMessages(cmd *cobra.Command, g *globals, o traceOptions, text string) error {
	given := 0
	for _, s := range []string{text, o.traceID, o.key} {
		if s != "" {
			given++
		}
	}
	if given != 1 {
		return usageError("name one of ID, --trace-id and --key")
	}
	if text == "" {
		return traceSeveral(cmd, g, o)
	}
	if o.topic == "" && strings.Contains(text, "/") {
		return usageError("PARTITION/SEQ needs --topic")
	}
	one := oneMessage{topic: o.topic}
	id, err := one.id(cmd.Context(), g, text)
	if err != nil {
		return err
	}
	ask := func(ctx context.Context) (*api.MessageTrace, error) { return g.client.Insights.Trace(ctx, o.topic, id) }
	return answer(cmd, g, ask, func(m *api.MessageTrace) output.View {
		m.Events = o.chosen(m.Events)
		return output.View{Object: m, Names: []string{m.ID}, Text: func(p *output.Page) {
			timeLine(p, m)
			traceNotes(p, m.Missing, m.Truncated)
		}}
	})
}

// chosen returns the events of the channel, and those of all channels.
func (o *traceOptions) chosen(all []api.TraceEvent) []api.TraceEvent {
	return slices.DeleteFunc(all, func(e api.TraceEvent) bool { return o.channel != "" && e.Channel != "" && e.Channel != o.channel })
}

func traceSeveral(cmd *cobra.Command, g *globals, o traceOptions) error {
	if o.topic == "" {
		return usageError("--trace-id and --key need --topic")
	}
	list, err := query(cmd.Context(), g, func(ctx context.Context) (*api.TraceList, error) {
		return g.client.Insights.TracesBy(ctx, o.topic, o.traceID, o.key)
	})
	if err != nil {
		return err
	}
	names := make([]string, len(list.Messages))
	for i := range list.Messages {
		names[i] = list.Messages[i].ID
		list.Messages[i].Events = o.chosen(list.Messages[i].Events)
	}
	return g.show(cmd, output.View{Object: list, Names: names, Text: func(p *output.Page) {
		for i := range list.Messages {
			if i > 0 {
				p.Line("")
			}
			timeLine(p, &list.Messages[i])
		}
		if len(list.Messages) == 0 {
			p.Line("no traced message of topic %s matches", list.Topic)
		}
		traceNotes(p, list.Missing, list.Truncated)
	}})
}

// timeLine shows the events of a message, each with the time since the previous one.
func timeLine(p *output.Page, m *api.MessageTrace) {
	p.Line("message %s, %s %d/%d", m.ID, m.Topic, m.Partition, m.Seq)
	t := output.NewTable("TIME", "AFTER", "NODE", "WHAT", "CHANNEL", "ATTEMPT", "CLIENT", "DETAILS")
	var before time.Time
	for i := range m.Events {
		e := &m.Events[i]
		after := ""
		if i > 0 {
			after = e.Time.Sub(before).Round(time.Microsecond).String()
		}
		before = e.Time
		attempt := ""
		if e.Attempt > 0 {
			attempt = fmt.Sprint(e.Attempt)
		}
		t.Row(output.Time(e.Time), after, e.Node, e.What, e.Channel, attempt, bodyText([]byte(e.Consumer+e.Publisher), 0), eventDetails(e))
	}
	p.Table(t)
}

func eventDetails(e *api.TraceEvent) string {
	var out []string
	if e.Through != "" && e.Through != e.Node {
		out = append(out, "through "+e.Through)
	}
	if e.DelayMS > 0 {
		out = append(out, "for "+(time.Duration(e.DelayMS)*time.Millisecond).String())
	}
	if e.Reason != "" {
		out = append(out, e.Reason)
	}
	if e.CopyID != "" {
		out = append(out, "copy "+e.CopyID)
	}
	return strings.Join(out, ", ")
}

// traceNotes lists what is missing.
func traceNotes(p *output.Page, missing []string, truncated bool) {
	if len(missing) > 0 {
		p.Line("incomplete: no answer from %s", strings.Join(missing, ", "))
	}
	if truncated {
		p.Line("incomplete: only the first events are shown")
	}
}
