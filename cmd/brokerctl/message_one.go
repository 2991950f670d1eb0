package main

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/seq"
)

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
		return "", about(err, o.topic, "")
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
		RunE: func(cmd *cobra.Command, args []string) error { return getMessage(cmd, g, o, args[0]) },
	}
	o.addFlags(cmd, "only the state in this `CHANNEL`")
	return cmd
}

func getMessage(cmd *cobra.Command, g *globals, o oneMessage, text string) error {
	id, err := o.find(cmd.Context(), g, text)
	if err != nil {
		return err
	}
	return answer(cmd, g, func(ctx context.Context) (*api.MessageDetail, error) {
		return g.client.Insights.Message(ctx, o.topic, id, o.channel)
	}, messageView)
}

func messageView(m *api.MessageDetail) view {
	return view{object: m, names: []string{m.ID}, text: func(p *page) {
		t := newTable("ID", "P/SEQ", "PUBLISHED", "BYTES", "HEADERS", "+TRACE ID")
		t.row(m.ID, place(m.Peeked), timeText(m.Timestamp), count(len(m.Body)), string(m.Headers), m.TraceIDHex)
		p.table(t)
		states := newTable("CHANNEL", "STATE", "ATTEMPTS")
		for _, c := range m.Channels {
			states.row(c.Channel, c.State, c.Attempts)
		}
		p.details(states)
		p.line("")
		p.line("%s", bodyText(m.Body, 0))
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
	return answer(cmd, g, ask, func(m *api.FinishedMessage) view {
		return view{object: m, names: []string{m.ID}, text: func(p *page) {
			switch {
			case g.quiet:
			case m.Was == api.PeekFinished:
				p.line("message %s was already finished in %s/%s", m.ID, m.Topic, m.Channel)
			default:
				p.line("message %s finished in %s/%s, it was %s", m.ID, m.Topic, m.Channel, m.Was)
			}
		}}
	})
}
