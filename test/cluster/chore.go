package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/brokerd/brokerd/test/nodes"
	"github.com/brokerd/brokerd/test/traffic"
	"github.com/brokerd/brokerd/test/wire"
)

// choreTimeout bounds each action that has to succeed although nodes are killed meanwhile.
const choreTimeout = 20 * time.Second

// chore is a topic of one partition, with the deliveries to its consumers. Its messages are short
// texts. Each is published until it is acknowledged.
type chore struct {
	st    *stage
	topic string

	mu    sync.Mutex                                // guards what follows
	got   map[string]map[string]map[string]struct{} // the ids of the message, by channel and text
	keeps map[string]bool                           // channels whose consumers finish nothing
	ids   map[string]string                         // the id of each text in the answer to its publish
	order *keyOrder                                 // state of the keys; nil: the order of keys is not checked
}

// newChore creates a topic.
func newChore(st *stage, name string, config map[string]any) (*chore, error) {
	config["partitions"] = 1
	c := &chore{st: st, topic: name, got: map[string]map[string]map[string]struct{}{}, keeps: map[string]bool{}, ids: map[string]string{}}
	return c, st.make(name, config)
}

// path returns a path of the HTTP API below the topic.
func (c *chore) path(of string) string { return "/v1/topics/" + c.topic + of }

// sure repeats an action until it succeeds.
func (c *chore) sure(what string, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(c.st.ctx, choreTimeout, fmt.Errorf("%s: not after %v", what, choreTimeout))
	defer cancel()
	return nodes.Await(ctx, func() error { return f(ctx) })
}

// ask sends a request until it succeeds.
func (c *chore) ask(method, path string, in, out any) error {
	return c.sure(method+" "+path, func(ctx context.Context) error { return c.st.c.Ask(ctx, method, path, in, out) })
}

// publish publishes a text until it is acknowledged. A dedup id makes the broker store it once.
// more are further fields of the message.
func (c *chore) publish(text string, more map[string]any) error {
	m := map[string]any{"text": text, "dedup": text}
	maps.Copy(m, more)
	var answer struct{ IDs []string }
	if err := c.ask(http.MethodPost, c.path("/messages"), map[string]any{"messages": []any{m}}, &answer); err != nil {
		return err
	}
	if len(answer.IDs) != 1 {
		return fmt.Errorf("the publish of %s was answered with %d ids", text, len(answer.IDs))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if before, again := c.ids[text]; again && before != answer.IDs[0] {
		return fmt.Errorf("%s has the id %s, and was answered with %s before", text, answer.IDs[0], before)
	}
	c.ids[text] = answer.IDs[0]
	return nil
}

// meanwhile publishes texts while do runs.
func (c *chore) meanwhile(texts []string, more func(i int) map[string]any, do func() error) error {
	published := make(chan error, 1)
	go func() {
		for i, text := range texts {
			if err := c.publish(text, more(i)); err != nil {
				published <- err
				return
			}
			traffic.Pause(c.st.ctx, chorePace)
		}
		published <- nil
	}()
	return errors.Join(do(), <-published)
}

// chorePace is the time between two publishes.
const chorePace = 10 * time.Millisecond

// plain returns no further fields for a message.
func plain(int) map[string]any { return nil }

// texts returns n names.
func texts(kind string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%s-%03d", kind, i))
	}
	return all
}

// every returns each n-th of the texts, from the given one on.
func every(all []string, n, from int) (some []string) {
	for i := from; i < len(all); i += n {
		some = append(some, all[i])
	}
	return some
}

// consume starts a consumer of a channel, which connects to one node after the other.
func (c *chore) consume(channel string) *traffic.Crew {
	c.mu.Lock()
	c.got[channel] = map[string]map[string]struct{}{}
	c.mu.Unlock()
	return traffic.Hire(1, func(ctx context.Context, _ int) {
		d := dialer{nodes: c.st.c.Nodes, o: wire.Options{ID: "chore", UserAgent: userAgent, MsgTimeout: msgTimeout, Timeout: patience}}
		for conn := range d.connections(ctx) {
			if subscribe(ctx, conn, 10, c.topic, channel) {
				c.live(conn, channel)
			}
		}
	})
}

// live answers deliveries until the connection ends or has lived for a while.
func (c *chore) live(conn *wire.Client, channel string) {
	for d := range deliveries(conn, time.Now().Add(minLife)) {
		id := string(d.ID[:])
		answer := []string{"FIN", id}
		if c.note(channel, string(d.Body), id) {
			answer = []string{"REQ", id, "0"}
		}
		if conn.Command(answer...) != nil {
			return
		}
	}
}

// note records a delivery, and returns whether to requeue the message.
func (c *chore) note(channel, text, id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.got[channel][text] == nil {
		c.got[channel][text] = map[string]struct{}{}
	}
	c.got[channel][text][id] = struct{}{}
	if c.order != nil {
		return c.order.deliver(text)
	}
	return c.keeps[channel]
}

// keep makes a channel's consumers requeue the messages that they receive, or finish them.
func (c *chore) keep(channel string, keeps bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keeps[channel] = keeps
	clear(c.got[channel])
}

// delivered waits until a channel has got exactly these texts, each with one id.
func (c *chore) delivered(channel string, want []string) error {
	return errors.Join(c.sure("deliver all to "+channel, func(context.Context) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, text := range want {
			if c.got[channel][text] == nil {
				return fmt.Errorf("%s, of %d, was not delivered", text, len(want))
			}
		}
		return nil
	}), c.only(channel, want))
}

// only checks that a channel got none but these texts, and each with one id.
func (c *chore) only(channel string, want []string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for text, ids := range c.got[channel] {
		switch {
		case !slices.Contains(want, text):
			return fmt.Errorf("%s came to %s", text, channel)
		case len(ids) != 1:
			return fmt.Errorf("%s was delivered to %s with the ids %v", text, channel, slices.Sorted(maps.Keys(ids)))
		}
	}
	return nil
}

// killLeader kills the leader of the topic. It starts the node again when another one leads.
func (c *chore) killLeader() error {
	leader, err := c.leader()
	if err != nil {
		return err
	}
	return errors.Join(c.st.kill(leader), othersLead(c.st, c.topic, leader), c.st.start(leader))
}

// leader waits until the topic has a leader.
func (c *chore) leader() (*nodes.Node, error) { return c.st.leader(c.topic, 0) }

// command runs brokerctl until it succeeds.
func (c *chore) command(args ...string) error {
	return c.sure("brokerctl "+strings.Join(args, " "), func(context.Context) error { return brokerctl(c.st, args...) })
}

// stored checks that the log has each text once, and no others.
func (c *chore) stored(want []string) error {
	return c.sure("messages", func(ctx context.Context) error {
		return c.listed(ctx, fmt.Sprintf("/messages?n=%d", 2*len(want)), want)
	})
}

// listed checks that the answer to a path below the topic lists each text once, and no others.
func (c *chore) listed(ctx context.Context, path string, want []string) error {
	var page struct{ Messages []struct{ Text string } }
	if err := c.st.c.Ask(ctx, http.MethodGet, c.path(path), nil, &page); err != nil {
		return err
	}
	var all []string
	for _, m := range page.Messages {
		all = append(all, m.Text)
	}
	slices.Sort(all)
	if sorted := slices.Sorted(slices.Values(want)); !slices.Equal(all, sorted) {
		return fmt.Errorf("%s lists %d messages, want %d: %v", path, len(all), len(want), all)
	}
	return nil
}

// channel returns the figures of a channel.
func (c *chore) channel(name string) (of nodes.Channel, err error) {
	t, err := c.st.c.Topic(c.st.ctx, c.topic)
	if err != nil {
		return of, err
	}
	i := slices.IndexFunc(t.Channels, func(ch nodes.Channel) bool { return ch.Name == name })
	if i < 0 {
		return of, fmt.Errorf("channel %s is not there", name)
	}
	return t.Channels[i], nil
}
