package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/brokerd/brokerd/internal/complaint"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
)

// directory changes topics and channels: it has the metadata say what should
// be, and this node follow it.
type directory struct {
	*hosting

	complaints complaint.Book // of what clients do
}

// Topics returns all topics of the cluster, sorted by name. They are shared and
// must not be changed.
func (d *directory) Topics() []*meta.Topic { return d.o.Meta.Topics() }

// Topic returns a topic of the cluster, or ErrTopicNotFound.
func (d *directory) Topic(name string) (*meta.Topic, error) {
	if t := d.o.Meta.Topic(name); t != nil {
		return t, nil
	}
	return nil, ErrTopicNotFound
}

// CreateTopic creates a topic; fields of cfg that are zero get their defaults.
// A topic that is there already with the same configuration is no error.
func (d *directory) CreateTopic(ctx context.Context, name string, cfg meta.TopicConfig) (*meta.Topic, error) {
	if !meta.ValidTopicName(name) {
		return nil, fmt.Errorf("%w: %q", ErrInvalidTopic, name)
	}
	cfg, assignment, err := d.place(name, cfg)
	if err != nil {
		return nil, err
	}
	r, err := d.proposeNew(ctx, d.o.Meta.Topic(name) != nil, meta.CreateTopic{Name: name, Config: cfg, Assignment: assignment})
	if err != nil {
		return nil, ofThisIncarnation(err)
	}
	leaders{d.hosting}.spread(ctx, name, r.Index)
	err = d.converge(name)
	if h := d.lookup(name); h != nil {
		h.use()
	}
	return r.Topic, err
}

// proposeNew proposes to create something, within what whoever asks may create.
// there: as far as this node knows it exists.
func (d *directory) proposeNew(ctx context.Context, there bool, c meta.Command) (meta.Result, error) {
	if there {
		return d.propose(ctx, c)
	}
	undo, err := limit.Create(ctx)
	if err != nil {
		return meta.Result{}, err
	}
	r, err := d.propose(ctx, c)
	if err != nil && fate.Of(err) == fate.Refused || r.Existed {
		undo()
	}
	return r, err
}

// place fills in what a new topic's creator left open, and decides where its
// replicas go.
func (d *directory) place(name string, cfg meta.TopicConfig) (meta.TopicConfig, [][]meta.NodeID, error) {
	var assignment [][]meta.NodeID
	var err error
	cfg = overlay(cfg, d.o.TopicDefaults)
	d.o.Meta.Read(func(s *meta.State) {
		cfg = s.Settings().TopicDefaults(cfg).WithDefaults(meta.StayingNodes(s), meta.IsEphemeral(name))
		if err = cfg.Validate(); err == nil {
			assignment, err = d.assign(s, name, cfg.Partitions, cfg.Replicas, cfg.MinISR)
		}
	})
	return cfg, assignment, err
}

// overlay fills in what cfg leaves open.
func overlay(cfg, defaults meta.TopicConfig) meta.TopicConfig {
	setDefault(&cfg.Partitions, defaults.Partitions)
	setDefault(&cfg.Sync, defaults.Sync)
	setDefault(&cfg.RetentionAge, defaults.RetentionAge)
	setDefault(&cfg.RetentionBytes, defaults.RetentionBytes)
	return cfg
}

// assign decides where the replicas of new partitions go. An ephemeral topic is
// kept where it is made. Where fewer nodes can take one than there are to be replicas,
// but enough of them to publish, nodes that are down get the rest: they catch up
// when they come back.
func (d *directory) assign(s *meta.State, name string, partitions, replicas, minISR int) ([][]meta.NodeID, error) {
	if self := s.Node(d.o.Self); meta.IsEphemeral(name) && replicas == 1 && self != nil && self.MayHold() {
		return slices.Repeat([][]meta.NodeID{{self.ID}}, partitions), nil
	}
	var up, down []*meta.Node
	for n := range s.Nodes() {
		switch {
		case n.MayHold():
			up = append(up, n)
		case n.State == meta.NodeDown && n.Intent != meta.IntentDecommission:
			down = append(down, n)
		}
	}
	load := s.Load()
	missing := replicas - len(up)
	if missing <= 0 || len(up) < minISR || missing > len(down) {
		return meta.Place(up, load, partitions, replicas)
	}
	assignment, err := meta.Place(up, load, partitions, len(up))
	if err != nil {
		return nil, err
	}
	slices.SortFunc(down, func(a, b *meta.Node) int {
		return cmp.Or(cmp.Compare(load[a.ID].Replicas, load[b.ID].Replicas), cmp.Compare(a.ID, b.ID))
	})
	for i := range assignment {
		for _, n := range down[:missing] {
			assignment[i] = append(assignment[i], n.ID)
		}
	}
	return assignment, nil
}

// MadeOnFirstUse returns the configuration of a topic that a publish would make;
// false: it would make none.
func (d *directory) MadeOnFirstUse() (meta.TopicConfig, bool) {
	cfg, _, err := d.place("", meta.TopicConfig{})
	return cfg, err == nil && d.makesTopics()
}

// makesTopics says whether publishing and subscribing make topics.
func (d *directory) makesTopics() bool {
	return d.o.AutoCreateTopics && d.o.Meta.Settings().AutoCreateTopics()
}

// EnsureTopic makes sure that a topic is there for somebody who wants to use
// it. Where topics are not made on first use, a missing one is ErrTopicNotFound.
func (d *directory) EnsureTopic(ctx context.Context, name string) error {
	_, err := d.ensure(ctx, name)
	return err
}

func (d *directory) ensure(ctx context.Context, name string) (*hostedTopic, error) {
	if h := d.lookup(name); h != nil {
		return h, nil
	}
	if !meta.ValidTopicName(name) {
		return nil, fmt.Errorf("%w: %q", ErrInvalidTopic, name)
	}
	if d.o.Meta.Topic(name) == nil {
		if !d.makesTopics() {
			return nil, ErrTopicNotFound
		}
		if err := d.createWithChannels(ctx, name); err != nil {
			return nil, err
		}
	}
	if err := d.converge(name); err != nil {
		return nil, err
	}
	if h := d.lookup(name); h != nil {
		return h, nil
	}
	return nil, ErrTopicNotFound // deleted at this moment
}

// createWithChannels creates a topic with the channels that it has elsewhere.
func (d *directory) createWithChannels(ctx context.Context, name string) error {
	_, err := d.CreateTopic(ctx, name, meta.TopicConfig{})
	if err != nil && !errors.Is(err, ErrTopicExists) {
		return err
	}
	if d.o.KnownChannels == nil {
		return nil
	}
	channels, err := d.o.KnownChannels(ctx, name)
	if err != nil {
		d.complaints.Warn(d.log, time.Now(), "cannot look up channels of new topic; they are created on first use", "topic", name, "error", err)
	}
	for _, c := range channels {
		if meta.ValidChannelName(c) && !meta.IsEphemeral(c) {
			// Whoever uses the topic has not asked for them, and messages that they miss are lost to them.
			if err := d.CreateChannel(limit.Uncounted(ctx), name, c, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// AlterTopic changes a topic's configuration.
func (d *directory) AlterTopic(ctx context.Context, name string, change func(*meta.TopicConfig)) error {
	t, err := d.Topic(name)
	if err != nil {
		return err
	}
	cfg := t.Config
	change(&cfg)
	patch, err := meta.Diff(t.Config, cfg)
	if err != nil {
		return ofThisIncarnation(err)
	}
	return d.change(ctx, name, meta.AlterTopic{Name: name, Incarnation: t.Incarnation, Patch: patch})
}

// AddPartitions grows a topic to a number of partitions.
func (d *directory) AddPartitions(ctx context.Context, name string, total int) error {
	t, err := d.Topic(name)
	if err != nil {
		return err
	}
	add := total - len(t.Partitions)
	if add <= 0 || total > seq.MaxPartitions {
		return fmt.Errorf("%w: %q has %d partitions, %d requested", ErrInvalidConfig, name, len(t.Partitions), total)
	}
	var assignment [][]meta.NodeID
	d.o.Meta.Read(func(s *meta.State) { assignment, err = d.assign(s, name, add, t.Config.Replicas, t.Config.MinISR) })
	if err != nil {
		return ofThisIncarnation(err)
	}
	return d.change(ctx, name, meta.AddPartitions{Name: name, Incarnation: t.Incarnation, Was: len(t.Partitions), Assignment: assignment})
}

// DeleteTopic deletes a topic, its channels and its messages. Its consumers are
// disconnected.
func (d *directory) DeleteTopic(ctx context.Context, name string) error {
	t, err := d.Topic(name)
	if err != nil {
		return err
	}
	return d.change(ctx, name, meta.DeleteTopic{Name: name, Incarnation: t.Incarnation})
}

// PauseTopic keeps messages published from now on from the topic's channels,
// or lets them have all again.
func (d *directory) PauseTopic(ctx context.Context, name string, paused bool) error {
	return d.change(ctx, name, meta.PauseTopic{Name: name, Paused: paused})
}

// change proposes a command on a topic and makes this node and the topic's
// leaders follow it.
func (d *directory) change(ctx context.Context, name string, c meta.Command) error {
	r, err := d.propose(ctx, c)
	if err != nil {
		return ofThisIncarnation(err)
	}
	leaders{d.hosting}.spread(ctx, name, r.Index)
	return d.converge(name)
}

// CreateChannel creates a channel of a topic that exists. When it returns, the
// place where the channel starts is on the disk of every in-sync replica. A
// channel that is there already is no error.
func (d *directory) CreateChannel(ctx context.Context, name, channel string, ordered bool) error {
	err := d.createChannel(ctx, meta.CreateChannel{Topic: name, Channel: channel, Ordered: ordered})
	if h := d.lookup(name); h != nil && err == nil {
		h.use()
	}
	return err
}

// createChannel is CreateChannel for whoever asks: a client of this node or another
// node. It fills in the rest of the command.
func (d *directory) createChannel(ctx context.Context, c meta.CreateChannel) error {
	name, channel, ordered := c.Topic, c.Channel, c.Ordered
	if !meta.ValidChannelName(channel) {
		return fmt.Errorf("%w: %q", ErrInvalidChannel, channel)
	}
	h, err := d.hostedOrConverged(name)
	if err != nil {
		return err
	}
	if meta.IsEphemeral(channel) {
		return addEphemeral(ctx, h, channel, ordered, d.o.Meta.Settings().ChannelDefaults())
	}
	if c := h.config.Load().Channels[channel]; c != nil {
		return leaders{d.hosting}.settle(ctx, name, uint64(c.Version))
	}
	c.Incarnation, c.CreatedAt = h.incarnation, time.Now().UnixNano()
	r, err := d.proposeNew(ctx, false, c)
	if err != nil {
		return ofThisIncarnation(err)
	}
	return leaders{d.hosting}.settle(ctx, name, r.Index)
}

// addEphemeral adds an ephemeral channel to the partitions of a topic that are led here. Where
// none of them has it, it counts as created.
func addEphemeral(ctx context.Context, h *hostedTopic, channel string, ordered bool, defaults policy.Policy) error {
	led := h.led()
	has := func(lp *ledPartition) bool { return lp.part.Channel(channel) != nil }
	if len(led) > 0 && !slices.ContainsFunc(led, has) {
		if _, err := limit.Create(ctx); err != nil {
			return err
		}
	}
	for _, lp := range led {
		if _, err := h.addEphemeral(lp, channel, ordered, defaults); err != nil {
			return err
		}
	}
	return nil
}

func (d *directory) hostedOrConverged(name string) (*hostedTopic, error) {
	if h := d.lookup(name); h != nil {
		return h, nil
	}
	if err := d.converge(name); err != nil {
		return nil, err
	}
	if h := d.lookup(name); h != nil {
		return h, nil
	}
	return nil, ErrTopicNotFound
}

// dropIfAbandoned deletes an ephemeral topic that this node leads and that has no
// channel left. Of what others lead it knows no channels.
func (d *directory) dropIfAbandoned(ctx context.Context, h *hostedTopic) error {
	led := h.led()
	if !meta.IsEphemeral(h.name) || len(led) == 0 || len(led) < len(h.config.Load().Partitions) {
		return nil
	}
	for _, lp := range led {
		if len(lp.part.Channels()) > 0 {
			return nil
		}
	}
	err := d.change(ctx, h.name, meta.DeleteTopic{Name: h.name, Incarnation: h.incarnation})
	if errors.Is(err, ErrTopicNotFound) {
		return nil
	}
	return err
}
