package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/seq"
)

func newMessageCommand(g *globals) *cobra.Command {
	return newGroup("message", "Publish, consume and inspect messages",
		newMessagePubCommand(g), newMessageTailCommand(g), newMessagePeekCommand(g),
		newMessageGetCommand(g), newMessageFinishCommand(g), newMessageRequeueCommand(g), newMessageCopyCommand(g),
		newMessageDeferredCommand(g), newMessageCancelCommand(g), newMessageAdvanceCommand(g),
		newMessageExportCommand(g), newMessageImportCommand(g),
		newMessageTraceCommand(g))
}

// bodyWidth is the displayed length of a body in a table.
const bodyWidth = 60

// bodyText formats a body for one line of a terminal: quoted if it is not plain text, truncated
// after width characters (0: never).
func bodyText(body []byte, width int) string {
	text := string(body)
	plain := utf8.Valid(body) && strings.IndexFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) < 0
	if !plain {
		text = strconv.QuoteToASCII(text)
	}
	if runes := []rune(text); width > 0 && len(runes) > width {
		text = string(runes[:width-1]) + "…"
	}
	return text
}

// bodyCell formats a body for a table: truncated, unless the table is wide.
func (g *globals) bodyCell(body []byte) string {
	if g.format == output.FormatWide {
		return bodyText(body, 0)
	}
	return bodyText(body, bodyWidth)
}

// place formats the position of a message in its topic: PARTITION/SEQ.
func place(m api.Peeked) string { return fmt.Sprintf("%d/%d", m.Partition, m.Seq) }

// writeMessage prints one message of a stream: only the body, or with details in wide format.
func (g *globals) writeMessage(p *output.Page, m api.Peeked) error {
	if g.format == output.FormatYAML {
		p.Line("---")
	}
	return output.View{
		Object: m,
		Names:  []string{m.ID},
		Text: func(p *output.Page) {
			if p.Wide {
				p.Line("%s  %s  %s  %d  %s", place(m), m.ID, output.Time(m.Timestamp), m.Attempts, bodyText(m.Body, 0))
				return
			}
			p.Line("%s", m.Body)
		},
	}.Write(p, g.format)
}

type peekOptions struct {
	n         int
	partition int
	from      uint64
	filter    string
	state     string
}

func newMessagePeekCommand(g *globals) *cobra.Command {
	var o peekOptions
	cmd := acting(g, &cobra.Command{
		Use:   "peek TOPIC[/CHANNEL]",
		Short: "Show messages without consuming them",
		Long:  helpOf("message-peek"),
		Example: `  brokerctl message peek orders/invoice -n 3
  brokerctl message peek orders/invoice --state in_flight
  brokerctl message peek orders --partition 0 --from 1200 -o ndjson`,
	}, func(cmd *cobra.Command, at target) error {
		req, err := o.request(cmd)
		if err != nil {
			return err
		}
		ask := func(ctx context.Context) ([]api.Peeked, error) { return g.client.Peek(ctx, at.topic, at.channel, req) }
		return answer(cmd, g, ask, g.peekedView)
	})
	f := cmd.Flags()
	f.IntVarP(&o.n, "n", "n", 10, "number of messages")
	f.IntVar(&o.partition, "partition", 0, "only this partition (default: all)")
	filterVar(f, &o.filter, "messages")
	f.StringVar(&o.state, "state", "", "only messages in this `STATE` in the channel: ready, in_flight, deferred or exhausted")
	f.Uint64Var(&o.from, "from", 0, "start at this sequence number `SEQ`")
	return cmd
}

func (o *peekOptions) request(cmd *cobra.Command) (api.PeekOptions, error) {
	req := api.PeekOptions{Max: o.n, Filter: o.filter, State: api.PeekState(o.state)}
	if o.n < 1 || o.partition < 0 {
		return req, usageError("-n must be above 0, and --partition must not be below 0")
	}
	setIf(cmd.Flags(), "partition", &req.Partition, o.partition)
	setIf(cmd.Flags(), "from", &req.From, o.from)
	return req, nil
}

func (g *globals) peekedView(messages []api.Peeked) output.View {
	t := output.NewTable("P/SEQ", "PUBLISHED", "ATTEMPTS", "STATE", "+ID", "+HEADERS", "BODY")
	return output.List(api.PeekedList{Messages: messages}, messages, func(m api.Peeked) string { return m.ID }, t, func(m api.Peeked) []any {
		return []any{place(m), output.Time(m.Timestamp), m.Attempts, m.State, m.ID, string(m.Headers), g.bodyCell(m.Body)}
	})
}

// oneMessage identifies the message of a command together with its id.
type oneMessage struct{ topic, channel string }

func (o *oneMessage) addFlags(cmd *cobra.Command, channelUsage string) {
	f := cmd.Flags()
	o.addTopic(cmd)
	f.StringVar(&o.channel, "channel", "", channelUsage)
}

func (o *oneMessage) addTopic(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.topic, "topic", "", "`TOPIC` of the message (default: the one that has such an id)")
}

// find returns the id that an argument means, and notes the topic if none was given.
func (o *oneMessage) find(ctx context.Context, g *globals, text string) (string, error) {
	if o.topic == "" && strings.Contains(text, "/") {
		return "", usageError("PARTITION/SEQ needs --topic")
	}
	id, err := o.id(ctx, g, text)
	if err != nil || o.topic != "" {
		return id, err
	}
	topics, err := query(ctx, g, g.client.Topics)
	if err != nil {
		return "", err
	}
	var names []string
	for i := range topics {
		if holds(&topics[i], id) {
			names = append(names, topics[i].Name)
		}
	}
	switch len(names) {
	case 0:
		return "", api.Errorf(failure.NotFound, "message %s belongs to no topic", id)
	case 1:
		o.topic = names[0]
		return id, nil
	}
	return "", usageError("message %s is in the range of topics %s: name one with --topic", id, strings.Join(names, ", "))
}

// holds reports whether a topic has a message with an id, or may have: the end of a partition whose leader did not
// answer is not known.
func holds(t *api.Topic, id string) bool {
	first, err := seq.ParseID([]byte(t.FirstID))
	at, err2 := seq.ParseID([]byte(id))
	if err != nil || err2 != nil {
		return false
	}
	m, ok := seq.NumberingFrom(first).Place(at)
	if !ok || m.Partition() >= len(t.Partitions) {
		return false
	}
	p := &t.Partitions[m.Partition()]
	return uint64(m.Offset()) < p.LogEnd || p.Leader == "" || slices.Contains(t.MissingNodes, p.Leader)
}

// id returns the id for an argument: 16 digits, or PARTITION/SEQ as in tables.
func (o *oneMessage) id(ctx context.Context, g *globals, text string) (string, error) {
	partition, offset, ok := strings.Cut(text, "/")
	if !ok {
		if _, err := seq.ParseID([]byte(text)); err != nil {
			e := usageError("%q is not a message id", text)
			e.answer.Hint = "an id has 16 hexadecimal digits; PARTITION/SEQ names a message by its position"
			return "", e
		}
		return strings.ToLower(text), nil
	}
	p, err := strconv.ParseUint(partition, 10, 31)
	if err == nil && p >= seq.MaxPartitions {
		err = strconv.ErrRange
	}
	n, err2 := strconv.ParseUint(offset, 10, 64)
	if err != nil || err2 != nil || n > uint64(seq.MaxOffset) {
		return "", usageError("%q is not a position PARTITION/SEQ", text)
	}
	t, err := query(ctx, g, func(ctx context.Context) (*api.Topic, error) { return g.client.Topic(ctx, o.topic) })
	if err != nil {
		return "", err
	}
	if p >= uint64(len(t.Partitions)) {
		return "", api.Errorf(failure.NotFound, "%s/%d: partition not found: topic %s has partitions 0 to %d", o.topic, p, o.topic, len(t.Partitions)-1)
	}
	first, err := seq.ParseID([]byte(t.FirstID))
	if err != nil {
		return "", err
	}
	return seq.NumberingFrom(first).ID(seq.NewMessageID(int(p), seq.Offset(n))).String(), nil
}

func newMessageGetCommand(g *globals) *cobra.Command {
	var o oneMessage
	cmd := &cobra.Command{
		Use:   "get ID",
		Short: "Show one message, and its state in every channel",
		Long: `Show one message by its id, or by its place PARTITION/SEQ, with its state in every channel of its
topic. Nothing is consumed and no attempt is counted.`,
		Example: `  brokerctl message get 2b839aa76e4d64b7
  brokerctl message get 0/1200 --topic orders -o json`,
		Args: exactArgs("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := o.find(cmd.Context(), g, args[0])
			if err != nil {
				return err
			}
			return answer(cmd, g, func(ctx context.Context) (*api.MessageDetail, error) {
				return g.client.Insights.Message(ctx, o.topic, id, o.channel)
			}, messageView)
		},
	}
	o.addFlags(cmd, "only the state in this `CHANNEL`")
	return cmd
}

func messageView(m *api.MessageDetail) output.View {
	return output.View{Object: m, Names: []string{m.ID}, Text: func(p *output.Page) {
		t := output.NewTable("ID", "P/SEQ", "PUBLISHED", "BYTES", "HEADERS", "+TRACE ID")
		t.Row(m.ID, place(m.Peeked), output.Time(m.Timestamp), count(len(m.Body)), string(m.Headers), m.TraceIDHex)
		p.Table(t)
		states := output.NewTable("CHANNEL", "STATE", "ATTEMPTS")
		for _, c := range m.Channels {
			states.Row(c.Channel, c.State, c.Attempts)
		}
		p.Details(states)
		p.Line("")
		p.Line("%s", bodyText(m.Body, 0))
	}}
}

func newMessageFinishCommand(g *globals) *cobra.Command {
	var o oneMessage
	cmd := &cobra.Command{
		Use:   "finish ID",
		Short: "Finish one message in a channel, as if a consumer had",
		Long: `Finish one message in a channel, by its id or its position PARTITION/SEQ, in any state: waiting,
deferred, or in flight, in which case the FIN of its consumer fails. Other channels keep it.`,
		Example: `  brokerctl message finish 2b839aa76e4d64b7 --topic orders --channel invoice`,
		Args:    exactArgs("ID"),
		RunE:    func(cmd *cobra.Command, args []string) error { return finishMessage(cmd, g, o, args[0]) },
	}
	o.addFlags(cmd, "`CHANNEL` in which it is finished")
	_ = cmd.MarkFlagRequired("channel") // the flag exists
	return cmd
}

func finishMessage(cmd *cobra.Command, g *globals, o oneMessage, text string) error {
	id, err := o.find(cmd.Context(), g, text)
	if err != nil {
		return err
	}
	ask := func(ctx context.Context) (*api.FinishedMessage, error) {
		return g.client.History.FinishMessage(ctx, o.topic, o.channel, id)
	}
	return answer(cmd, g, ask, func(m *api.FinishedMessage) output.View {
		return output.View{Object: m, Names: []string{m.ID}, Text: func(p *output.Page) {
			switch {
			case g.quiet:
			case m.Was == api.PeekFinished:
				p.Line("message %s was already finished in %s/%s", m.ID, m.Topic, m.Channel)
			default:
				p.Line("message %s finished in %s/%s, it was %s", m.ID, m.Topic, m.Channel, m.Was)
			}
		}}
	})
}

func newMessageRequeueCommand(g *globals) *cobra.Command {
	var o oneMessage
	cmd := &cobra.Command{
		Use:   "requeue ID",
		Short: "Redeliver one message to one channel",
		Long: `Send one message, by its id or its position PARTITION/SEQ, to one channel again, whatever its state
there. It is published at the end of its partition for this channel only.`,
		Example: `  brokerctl message requeue 2b839aa76e4d64b7 --topic orders --channel invoice`,
		Args:    exactArgs("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return publishAgain(cmd, g, &o, args[0], func(ctx context.Context, id string) (*api.Published, error) {
				return g.client.History.RequeueMessage(ctx, o.topic, o.channel, id)
			})
		},
	}
	o.addFlags(cmd, "`CHANNEL` to redeliver it to")
	_ = cmd.MarkFlagRequired("channel") // the flag exists
	return cmd
}

func newMessageCopyCommand(g *globals) *cobra.Command {
	var o oneMessage
	var to string
	cmd := &cobra.Command{
		Use:     "copy ID",
		Short:   "Publish one message to another topic",
		Long:    `Publish one message, named by its id or its position PARTITION/SEQ, to another existing topic. The original stays.`,
		Example: `  brokerctl message copy 2b839aa76e4d64b7 --topic orders --to orders-test`,
		Args:    exactArgs("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return publishAgain(cmd, g, &o, args[0], func(ctx context.Context, id string) (*api.Published, error) {
				return g.client.History.CopyMessage(ctx, o.topic, id, to)
			})
		},
	}
	o.addTopic(cmd)
	cmd.Flags().StringVar(&to, "to", "", "`TOPIC` to publish it to")
	_ = cmd.MarkFlagRequired("to") // it is there
	return cmd
}

// publishAgain has a stored message published, and shows its new id.
func publishAgain(cmd *cobra.Command, g *globals, o *oneMessage, text string, do func(context.Context, string) (*api.Published, error)) error {
	id, err := o.find(cmd.Context(), g, text)
	if err != nil {
		return err
	}
	ask := func(ctx context.Context) (*api.Published, error) { return do(ctx, id) }
	return answer(cmd, g, ask, func(done *api.Published) output.View {
		return output.View{Object: done, Names: done.IDs, Text: func(p *output.Page) {
			to := done.Topic
			if o.channel != "" {
				to += "/" + o.channel
			}
			if !g.quiet {
				p.Line("message %s published to %s as %s", id, to, done.IDs[0])
			}
		}}
	})
}
