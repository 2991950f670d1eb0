package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/client"
	"github.com/brokerd/brokerd/pkg/seq"
)

// tailReady is how many messages may wait to be printed.
const tailReady = 64

func tailChannel(cmd *cobra.Command, g *globals, o tailOptions, topic, channel string) error {
	ctx := cmd.Context()
	target, err := targetOf(cmd, g, topic, o.tcp, false)
	if err != nil {
		return err
	}
	known := slices.ContainsFunc(target.found.Channels, func(c api.ChannelSummary) bool { return c.Name == channel })
	if !known && !strings.HasSuffix(channel, "#ephemeral") {
		target.say("channel %s/%s does not exist: it is created now, and keeps messages until it is deleted", topic, channel)
	}
	ready := tailReady
	if o.n > 0 {
		ready = min(ready, o.n)
	}
	s, err := target.subscribe(ctx, channel, client.WithMaxInFlight(ready), client.WithMsgTimeout(o.timeout), client.WithTag(o.tag))
	if err != nil {
		return err
	}
	ids, err := numberingOf(ctx, g, topic)
	if err != nil {
		target.say("cannot show message positions: %v", err)
	}
	page := g.page(cmd)
	return s.take(o.n, func(m *client.Message) error { return g.writeMessage(page, peekedOf(m, ids)) })
}

// numberingOf returns the numbering that converts the ids of a topic's messages to positions.
func numberingOf(ctx context.Context, g *globals, topic string) (*seq.Numbering, error) {
	t, err := query(ctx, g, func(ctx context.Context) (*api.Topic, error) { return g.client.Topic(ctx, topic) })
	if err != nil {
		return nil, err
	}
	first, err := seq.ParseID([]byte(t.FirstID))
	if err != nil {
		return nil, fmt.Errorf("first_id of %s is %q: %w", topic, t.FirstID, err)
	}
	return new(seq.NumberingFrom(first)), nil
}

// take calls show for n messages (0: all), finishes them, and disconnects.
func (s *subscription) take(n int, show func(*client.Message) error) error {
	left := n // below 1: unlimited
	var failed error
	for m := range s.consumer.Messages(s.ctx) {
		if failed = show(m); failed != nil {
			_ = m.Requeue(0) // on failure the message is redelivered anyway
			break
		}
		if left--; left >= 0 && left < tailReady {
			s.consumer.SetMaxInFlight(left) // before the FIN, otherwise one more message arrives
		}
		_ = m.Finish() // likewise
		if left == 0 {
			break
		}
	}
	if err := s.leave(); failed == nil {
		failed = err
	}
	return failed
}

// peekedOf converts a delivered message to a peeked one. Without a numbering, or for an unknown
// message, the partition is -1.
func peekedOf(m *client.Message, ids *seq.Numbering) api.Peeked {
	p := api.Peeked{
		Partition: -1,
		ID:        m.ID.String(),
		Timestamp: m.Timestamp.UTC(),
		Attempts:  uint16(m.Attempts), //nolint:gosec // as the protocol has it
		State:     api.PeekInFlight,
		Headers:   json.RawMessage("{}"),
		Body:      m.Body,
	}
	if id, err := seq.ParseID([]byte(p.ID)); err == nil && ids != nil {
		if place, ok := ids.Place(id); ok {
			p.Partition, p.Seq = place.Partition(), uint64(place.Offset())
		}
	}
	if utf8.Valid(m.Body) {
		p.Text = new(string)
		*p.Text = string(m.Body)
	}
	return p
}
