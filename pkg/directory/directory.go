package directory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/brokerd/brokerd/internal/complaint"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// Directory changes topics and channels: it proposes the change to the metadata, and makes this
// node apply it.
type Directory struct {
	o       Options
	host    *host.Host
	leaders leaders

	complaints complaint.Book // about clients

	abandoned abandoned
}

// abandoned are ephemeral topics that are being deleted because they have no channel. They get none meanwhile: its
// consumers would lose it at once.
type abandoned struct {
	mu sync.RWMutex             // guards of, and is held while a channel is added
	of map[meta.Incarnation]int // number of deletions that have not ended: the first to end may not be the one that deletes
}

// begin marks a topic as abandoned if it has no channel on this node.
func (a *abandoned) begin(h *host.Topic) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if slices.ContainsFunc(h.AllLed(), func(lp *host.Led) bool { return len(lp.Part.Channels()) > 0 }) {
		return false
	}
	if a.of == nil {
		a.of = map[meta.Incarnation]int{}
	}
	a.of[h.Incarnation]++
	return true
}

func (a *abandoned) end(h *host.Topic) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of[h.Incarnation]--; a.of[h.Incarnation] == 0 {
		delete(a.of, h.Incarnation)
	}
}

// Options configure a directory.
type Options struct {
	Self             meta.NodeID
	Meta             *raftstore.Store
	Calls            forward.Caller // to other nodes
	Logger           *slog.Logger
	AutoCreateTopics bool             // publishing and subscribing create topics, unless the cluster's settings forbid it
	TopicDefaults    meta.TopicConfig // of topics created without a configuration; zero fields: the cluster's
	// KnownChannels returns the channels that a new topic has elsewhere: they are created with it.
	// nil: none.
	KnownChannels func(ctx context.Context, topic string) ([]string, error)
}

// New returns a directory whose changes a host applies.
func New(o Options, h *host.Host) *Directory {
	d := &Directory{o: o, host: h}
	d.leaders = leaders{o: &d.o, host: h, complaints: &d.complaints}
	return d
}

// Topics returns all topics of the cluster, sorted by name. They are shared and
// must not be changed.
func (d *Directory) Topics() []*meta.Topic { return d.o.Meta.Topics() }

// Topic returns a topic of the cluster, or failure.TopicNotFound.
func (d *Directory) Topic(name string) (*meta.Topic, error) {
	if t := d.o.Meta.Topic(name); t != nil {
		return t, nil
	}
	return nil, failure.TopicNotFound
}

// CreateTopic creates a topic; zero fields of cfg get their defaults. An existing topic with the
// same configuration is no error; with another one, the error is failure.TopicExists.
func (d *Directory) CreateTopic(ctx context.Context, name string, cfg meta.TopicConfig) (*meta.Topic, error) {
	if !meta.ValidTopicName(name) {
		return nil, fmt.Errorf("%w: %q", failure.InvalidTopic, name)
	}
	cfg, assignment, err := placer{&d.o}.await(ctx, name, cfg)
	if err != nil {
		return nil, err
	}
	r, err := d.ProposeNew(ctx, d.o.Meta.Topic(name) != nil, meta.CreateTopic{Name: name, Config: cfg, Assignment: assignment})
	if err != nil {
		return nil, host.OfThisIncarnation(err)
	}
	d.leaders.spread(ctx, name, r.Index)
	err = d.host.Converge(name)
	return r.Topic, notApplied(host.Concerning(err, ""))
}

// ProposeNew proposes a creation, charged to the requester's creation limit. there means that it
// exists already, according to this node's metadata.
func (d *Directory) ProposeNew(ctx context.Context, there bool, c meta.Command) (meta.Result, error) {
	if there {
		return d.host.Propose(ctx, c)
	}
	undo, err := limit.Create(ctx, max(creations(c), 1))
	if err != nil {
		return meta.Result{}, err
	}
	r, err := d.host.Propose(ctx, c)
	if err != nil && fate.Of(err) == fate.Refused || r.Existed {
		undo()
	}
	return r, err
}

// MadeOnFirstUse returns the configuration of a topic that a publish would create; false: it would
// create none.
func (d *Directory) MadeOnFirstUse() (meta.TopicConfig, bool) {
	cfg, _, err := placer{&d.o}.place("", meta.TopicConfig{})
	return cfg, err == nil && d.MakesTopics()
}

// MakesTopics reports whether publishing and subscribing create topics.
func (d *Directory) MakesTopics() bool {
	return d.o.AutoCreateTopics && d.o.Meta.Settings().AutoCreateTopics()
}

// EnsureTopic creates a topic on first use if it is missing. If topics are not created on first
// use, it returns failure.TopicNotFound. Errors are those of EnsureHosted.
func (d *Directory) EnsureTopic(ctx context.Context, name string) error {
	_, err := d.EnsureHosted(ctx, name)
	return err
}

// EnsureHosted is like EnsureTopic and returns the topic on this node. An error is marked fate.Refused:
// the topic may have been created, but what the caller wants to do with it has not begun.
func (d *Directory) EnsureHosted(ctx context.Context, name string) (*host.Topic, error) {
	h, err := d.ensureHosted(ctx, name)
	return h, fate.Mark(err, fate.Refused)
}

func (d *Directory) ensureHosted(ctx context.Context, name string) (*host.Topic, error) {
	if h := d.host.Lookup(name); h != nil {
		return h, nil
	}
	if !meta.ValidTopicName(name) {
		return nil, fmt.Errorf("%w: %q", failure.InvalidTopic, name)
	}
	if d.o.Meta.Topic(name) == nil {
		if !d.MakesTopics() {
			return nil, failure.TopicNotFound
		}
		if err := d.createWithChannels(ctx, name); err != nil {
			return nil, err
		}
	}
	if err := d.host.Converge(name); err != nil {
		return nil, err
	}
	if h := d.host.Lookup(name); h != nil {
		return h, nil
	}
	return nil, failure.TopicNotFound // deleted at this moment
}

// createWithChannels creates a topic with the channels that it has elsewhere.
func (d *Directory) createWithChannels(ctx context.Context, name string) error {
	_, err := d.CreateTopic(ctx, name, meta.TopicConfig{})
	if err != nil && !errors.Is(err, failure.TopicExists) {
		return err
	}
	if d.o.KnownChannels == nil {
		return nil
	}
	channels, err := d.o.KnownChannels(ctx, name)
	if err != nil {
		d.complaints.Warn(d.o.Logger, time.Now(), "cannot look up channels of new topic; they are created on first use", "topic", name, "error", err)
	}
	for _, c := range channels {
		if meta.ValidChannelName(c) && !meta.IsEphemeral(c) {
			// The client has not requested them, and messages that they miss are lost to them.
			if err := d.CreateChannel(limit.Uncounted(ctx), name, c, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// AlterTopic applies change to a topic's configuration, and returns once this node has the result.
func (d *Directory) AlterTopic(ctx context.Context, name string, change func(*meta.TopicConfig)) error {
	c, err := d.alteration(name, change)
	if err != nil {
		return err
	}
	return d.Change(ctx, name, c)
}

func (d *Directory) alteration(name string, change func(*meta.TopicConfig)) (c meta.AlterTopic, err error) {
	t, err := d.Topic(name)
	if err != nil {
		return c, err
	}
	c = meta.AlterTopic{Name: name, Incarnation: t.Incarnation, Was: t.Config, Will: t.Config}
	change(&c.Will)
	return c, nil
}

// AddPartitions grows a topic to a number of partitions.
func (d *Directory) AddPartitions(ctx context.Context, name string, total int) error {
	c, err := d.addition(name, total)
	if err != nil {
		return err
	}
	undo, err := limit.Create(ctx, creations(c))
	if err != nil {
		return err
	}
	err = d.Change(ctx, name, c)
	if fate.Of(err) == fate.Refused {
		undo()
	}
	return err
}

func (d *Directory) addition(name string, total int) (c meta.AddPartitions, err error) {
	t, err := d.Topic(name)
	if err != nil {
		return c, err
	}
	add := total - len(t.Partitions)
	if add <= 0 || total > seq.MaxPartitions {
		return c, fmt.Errorf("%w: %q has %d partitions, %d requested", failure.InvalidConfig, name, len(t.Partitions), total)
	}
	c = meta.AddPartitions{Name: name, Incarnation: t.Incarnation, Was: len(t.Partitions)}
	d.o.Meta.Read(func(s *meta.State) {
		c.Assignment, err = placer{&d.o}.assign(s, name, add, t.Config.Replicas, t.Config.MinISR)
	})
	return c, host.OfThisIncarnation(err)
}

// DeleteTopic deletes a topic, its channels and its messages, and disconnects its consumers.
// Trash.Restore restores it within the retention of its trash.
func (d *Directory) DeleteTopic(ctx context.Context, name string) error {
	t, err := d.Topic(name)
	if err != nil {
		return err
	}
	return d.Change(ctx, name, meta.DeleteTopic{Name: name, Incarnation: t.Incarnation})
}

// PauseTopic withholds messages published from now on from the topic's channels, or shows all
// again.
func (d *Directory) PauseTopic(ctx context.Context, name string, paused bool) error {
	return d.Change(ctx, name, meta.PauseTopic{Name: name, Paused: paused})
}

// Change proposes a command on a topic and makes this node and the topic's
// leaders follow it. failure.NotApplied: the metadata has the change, and this node has yet to
// follow it. A restored channel is confirmed by all leaders: see failure.ChannelUnconfirmed.
func (d *Directory) Change(ctx context.Context, name string, c meta.Command) error {
	r, err := d.host.Propose(ctx, c)
	if err != nil {
		return host.OfThisIncarnation(err)
	}
	if a, is := c.(meta.AlterChannel); is && a.Restores != 0 {
		// A leader that moves the channel back before it follows finishes what it does not know to be for it.
		err = d.leaders.converge(ctx, name, r.Index)
	} else {
		d.leaders.spread(ctx, name, r.Index)
		err = d.host.Converge(name)
	}
	return notApplied(host.Concerning(err, channelOf(c)))
}

// notApplied returns an error of a leader that follows a change of the metadata.
func notApplied(err error) error {
	if err == nil || errors.Is(err, failure.ChannelUnconfirmed) {
		return err
	}
	return fmt.Errorf("%w: %w", failure.NotApplied, err)
}

// channelOf returns the channel that a command changes; "" for one that is of its topic.
func channelOf(c meta.Command) string {
	switch c := c.(type) {
	case meta.AlterChannel:
		return c.Channel
	case meta.DeleteChannel:
		return c.Channel
	}
	return ""
}

// CreateChannel creates a channel of an existing topic. When it returns, the start of the channel
// is on the disk of every in-sync replica. An existing channel is no error.
func (d *Directory) CreateChannel(ctx context.Context, name, channel string, ordered bool) error {
	return d.EnsureChannel(ctx, meta.CreateChannel{Topic: name, Channel: channel, Order: policy.StrictIf(ordered)})
}

// EnsureChannel is CreateChannel on behalf of a client or another node. It completes the
// command: a channel of an ordered topic that names no order is strict. One to restore must not exist.
func (d *Directory) EnsureChannel(ctx context.Context, c meta.CreateChannel) error {
	name, channel, order := c.Topic, c.Channel, c.Order
	if !meta.ValidChannelName(channel) {
		return fmt.Errorf("%w: %q", failure.InvalidChannel, channel)
	}
	h, err := d.hostedOrConverged(name)
	if err != nil {
		return err
	}
	order = orderIn(h.Config().Config, order)
	c.Order = order
	if meta.IsEphemeral(channel) {
		return addEphemeral(ctx, d, h, channel, order)
	}
	// What is hosted may lag behind, with a channel that has been deleted and restored meanwhile.
	if t := d.o.Meta.Topic(name); c.Version == 0 && t != nil && t.Incarnation == h.Incarnation && t.Channels[channel] != nil {
		c := t.Channels[channel]
		return notApplied(host.Concerning(d.leaders.converge(ctx, name, uint64(c.Version)), channel))
	}
	c.Incarnation, c.CreatedAt = h.Incarnation, time.Now().UnixNano()
	r, err := d.ProposeNew(ctx, false, c)
	if err != nil {
		return host.OfThisIncarnation(err)
	}
	return notApplied(host.Concerning(d.leaders.converge(ctx, name, r.Index), channel))
}

// addEphemeral adds an ephemeral channel to the partitions of a topic that are led here. If none of
// them has it, it counts as created.
func addEphemeral(ctx context.Context, d *Directory, h *host.Topic, channel string, order policy.Order) error {
	led := h.AllLed()
	undo := func() {}
	if len(led) > 0 && !host.Serves(h, channel) {
		var err error
		if undo, err = limit.Create(ctx, 1); err != nil {
			return err
		}
	}
	for i, lp := range led {
		if _, err := AddEphemeral(d, h, lp, channel, order); err != nil {
			if i == 0 {
				undo()
			}
			return err
		}
	}
	return nil
}

// AddEphemeral creates an ephemeral channel in a partition if it is missing. failure.TopicNotFound: the topic is about
// to be deleted.
func AddEphemeral(d *Directory, h *host.Topic, lp *host.Led, channel string, order policy.Order) (*topic.Channel, error) {
	d.abandoned.mu.RLock()
	defer d.abandoned.mu.RUnlock()
	if d.abandoned.of[h.Incarnation] > 0 {
		return nil, failure.TopicNotFound
	}
	return h.AddEphemeral(lp, channel, order, d.o.Meta.Settings().ChannelDefaults())
}

func (d *Directory) hostedOrConverged(name string) (*host.Topic, error) {
	if h := d.host.Lookup(name); h != nil {
		return h, nil
	}
	if err := d.host.Converge(name); err != nil {
		return nil, err
	}
	if h := d.host.Lookup(name); h != nil {
		return h, nil
	}
	return nil, failure.TopicNotFound
}

// DropIfAbandoned deletes an ephemeral topic led by this node that has no channel left. It does
// not know the channels of topics led elsewhere.
func (d *Directory) DropIfAbandoned(ctx context.Context, h *host.Topic) error {
	led := h.AllLed()
	if !meta.IsEphemeral(h.Name) || len(led) == 0 || len(led) < len(h.Config().Partitions) {
		return nil
	}
	if !d.abandoned.begin(h) {
		return nil
	}
	defer d.abandoned.end(h)
	err := d.Change(ctx, h.Name, meta.DeleteTopic{Name: h.Name, Incarnation: h.Incarnation, Unused: true})
	if errors.Is(err, failure.TopicNotFound) || errors.Is(err, failure.StaleVersion) { // it has a channel again
		return nil
	}
	return err
}
