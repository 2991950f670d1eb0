package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/brokerd/brokerd/pkg/relay"

	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/header"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// Subscribe joins a channel and creates what is missing of topic and channel.
// Nothing is delivered before SetReady.
//
// At a node that leads partitions of the topic, the subscription is for those;
// at one that leads none, their leaders are asked for messages. When what it was
// for here is led elsewhere, the client is told to disconnect: it will find what
// it needs when it comes again.
func (b *Broker) Subscribe(ctx context.Context, r Subscribe) (*Subscription, error) {
	s, err := b.newSubscription(ctx, r)
	if err != nil {
		return nil, err
	}
	s.topic.use()
	if err := s.joiner().begin(ctx); err != nil {
		s.Close()
		return nil, err
	}
	if r.Partition < 0 {
		s.unwatch = s.topic.watch(s)
		s.ledChanged() // what was led since
		b.adopter.note(s)
	}
	return s, nil
}

// newSubscription returns a subscription that takes from nowhere yet.
func (b *Broker) newSubscription(ctx context.Context, r Subscribe) (*Subscription, error) {
	if !meta.ValidChannelName(r.Channel) {
		return nil, fmt.Errorf("%w: %q", ErrInvalidChannel, r.Channel)
	}
	h, err := b.ensure(ctx, r.Topic)
	if err != nil {
		return nil, err
	}
	if t := h.config.Load(); r.Partition >= len(t.Partitions) {
		return nil, fmt.Errorf("%w: %s/%d", ErrPartitionNotFound, r.Topic, r.Partition)
	}
	if h.config.Load().Config.Ordered && !r.Ordered {
		r.Ordered = true // order is the topic's promise, however one subscribes
	}
	if err := b.createChannel(ctx, meta.CreateChannel{Topic: r.Topic, Channel: r.Channel, Ordered: r.Ordered}); err != nil {
		return nil, err
	}
	if h = b.lookup(r.Topic); h == nil {
		return nil, ErrTopicNotFound
	}
	if c := h.config.Load().Channels[r.Channel]; r.Ordered && c != nil && !c.Ordered {
		if err := b.change(ctx, r.Topic, meta.AlterChannel{Topic: r.Topic, Channel: r.Channel, Ordered: &r.Ordered}); err != nil {
			return nil, err
		}
	}
	if meta.IsEphemeral(r.Channel) && len(h.led()) == 0 && !h.consumes(r.Channel) {
		// It is made at a leader, which does not know who asks.
		if _, err := limit.Create(ctx); err != nil {
			return nil, err
		}
	}
	s := &Subscription{identified: h.identified, b: b, topic: h, ask: r}
	s.sources.Store(&sources{})
	s.resting.Store(time.Now().UnixNano())
	return s, nil
}

// subscribeFor joins a channel for a client of another node, on partitions that
// this one must lead.
func (b *Broker) subscribeFor(ctx context.Context, m *forward.Subscribe, fd *feed) (*Subscription, error) {
	if h := b.lookup(m.Topic); h == nil || h.incarnation != m.Incarnation {
		return nil, coord.ErrNotLeading // or not yet
	}
	filter, err := header.ParseFilter(m.Filter)
	if err != nil {
		return nil, err
	}
	s, err := b.newSubscription(ctx, Subscribe{
		Topic: m.Topic, Channel: m.Channel, Partition: AnyPartition, Ordered: m.Ordered, Client: fd,
		MsgTimeout: m.MsgTimeout, SampleRate: m.SampleRate, Start: m.Start, Tag: m.Tag, Filter: filter, Wake: fd.wake,
	})
	if err != nil {
		return nil, err
	}
	var led []*ledPartition
	for _, i := range m.Partitions {
		lp := s.topic.leds(i)
		if lp == nil {
			return nil, fmt.Errorf("%s/%d: %w", m.Topic, i, coord.ErrNotLeading)
		}
		led = append(led, lp)
	}
	if err := s.joiner().join(ctx, led); err != nil {
		s.Close()
		return nil, err
	}
	s.ask.Start = topic.Start{} // of what is joined now
	return s, nil
}

// joiner finds sources for a subscription.
type joiner struct{ s *Subscription }

func (s *Subscription) joiner() joiner { return joiner{s} }

// begin finds the first sources. While nobody leads what is asked for, or who
// does is not known here yet, it waits.
func (j joiner) begin(ctx context.Context) error {
	s := j.s
	ctx, cancel := context.WithTimeout(ctx, s.b.o.PublishTimeout)
	defer cancel()
	var last error
	for {
		changed := s.b.o.Meta.Changed()
		err := j.find(ctx)
		switch {
		case err == nil:
			s.ask.Start = topic.Start{} // of what is joined now
			return nil
		case !passes(err) && last != nil && ctx.Err() != nil:
			return last // it says more than that the time is over
		case !passes(err):
			return err
		}
		last = err
		again := time.NewTimer(retryLast)
		select {
		case <-changed:
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return err
		}
		again.Stop()
	}
}

// passes says whether what stands in the way of a subscription may be gone soon.
func passes(err error) bool {
	return fate.Of(err) == fate.Refused && (moving(err) || errors.Is(err, ErrNoLeader) || errors.Is(err, ErrExiting) ||
		!answered(err) && errors.Is(err, errNotReached))
}

// find joins the partitions that are led here, or has them relayed.
func (j joiner) find(ctx context.Context) error {
	s := j.s
	led := s.topic.led()
	if s.ask.Partition >= 0 {
		led = nil
		if lp := s.topic.leds(s.ask.Partition); lp != nil {
			led = append(led, lp)
		}
	}
	if len(led) > 0 {
		return s.joiner().join(ctx, led)
	}
	return s.joiner().relayAll(ctx)
}

// join adds consumers of partitions that are led here.
func (j joiner) join(ctx context.Context, led []*ledPartition) error {
	s := j.s
	for _, lp := range led {
		if c, err := j.channel(lp); err != nil {
			return err
		} else if err = s.ask.Start.Move(ctx, c); err != nil {
			return err
		}
		if err := s.joiner().joinOne(lp); err != nil {
			return err
		}
	}
	return nil
}

func (j joiner) joinOne(lp *ledPartition) error {
	s := j.s
	r := &s.ask
	c, err := j.channel(lp)
	if err != nil {
		return err
	}
	client := r.Client.ClientStats()
	src := &localSource{part: lp.part}
	k, err := c.Join(topic.ConsumerOptions{
		Timeout: r.MsgTimeout, MaxTimeout: s.maxTimeout(), SampleRate: r.SampleRate, Tag: r.Tag, Filter: r.Filter,
		Wake: s.wake, Owner: s, Name: client.Name(),
		Unfinished: func(o seq.Offset, err error) { s.ask.Client.Unfinished(seq.NewMessageID(lp.index, o), err) },
		Ended: func(reason error) {
			src.gone.Store(true)
			s.lost(reason, false)
		},
	}, s.b.o.MaxChannelConsumers)
	if err != nil {
		return err
	}
	if k == nil {
		return tooManyConsumers{r.Topic, r.Channel, s.b.o.MaxChannelConsumers}
	}
	src.Consumer = k
	if !s.change(func(set *sources) { set.local = append(set.local, src) }) {
		k.Leave()
	}
	return nil
}

// channel returns the channel of a partition. An ephemeral one is made where it is missing:
// the metadata does not know it, and the partition was not led when the subscription began.
func (j joiner) channel(lp *ledPartition) (*topic.Channel, error) {
	r := &j.s.ask
	if c := lp.part.Channel(r.Channel); c != nil {
		return c, nil
	}
	if !meta.IsEphemeral(r.Channel) {
		return nil, errChannelClosed
	}
	return j.s.topic.addEphemeral(lp, r.Channel, r.Ordered, j.s.b.o.Meta.Settings().ChannelDefaults())
}

func (s *Subscription) maxTimeout() time.Duration { return max(s.b.o.MaxMsgTimeout, s.ask.MsgTimeout) }

// relayAll has other nodes deliver what they lead. It is content if some can.
func (j joiner) relayAll(ctx context.Context) error {
	s := j.s
	byLeader := map[meta.NodeID][]int{}
	t := s.b.o.Meta.Topic(s.ask.Topic)
	if t == nil || t.Incarnation != s.topic.incarnation {
		return ErrTopicNotFound
	}
	for i := range t.Partitions {
		if leader := t.Partitions[i].Leader; leader != "" && (s.ask.Partition < 0 || s.ask.Partition == i) {
			byLeader[leader] = append(byLeader[leader], i)
		}
	}
	var errs []error
	for leader, partitions := range byLeader {
		if err := s.joiner().relayFrom(ctx, leader, partitions, false); err != nil {
			errs = append(errs, err)
		}
	}
	switch {
	case len(errs) < len(byLeader):
		return nil
	case len(errs) == 0:
		return fmt.Errorf("topic %s: %w", s.ask.Topic, ErrNoLeader)
	}
	return errs[0]
}

// errNotReached is what the failure of a call that never arrived is, too.
var errNotReached = fate.Refuse("node unreachable")

// relayFrom has one other node deliver what it leads.
func (j joiner) relayFrom(ctx context.Context, leader meta.NodeID, partitions []int, extra bool) error {
	s := j.s
	if leader == s.b.o.Self || s.b.o.Remote == nil {
		return fmt.Errorf("%s: %w", s.ask.Topic, coord.ErrNotLeading) // or not yet
	}
	about, err := json.Marshal(s.ask.Client.ClientStats())
	if err != nil {
		return fmt.Errorf("encode client description: %w", err)
	}
	starved := func() {
		s.allot()
		s.wake() // where others keep their credit and do not use it, Take sees to that
	}
	r := relay.New(relay.Options{
		Remote: s.b.o.Remote, FromRemote: fromRemote, Node: leader, Handle: s.b.handles.Add(1),
		Partitions: partitions, Extra: extra, Running: s.b.pulse.Begin(),
		Timeout: s.ask.MsgTimeout, MaxTimeout: s.maxTimeout(),
		Events: relay.Events{
			Wake: s.wake, Starved: starved, Freed: s.freed, Unfinished: s.ask.Client.Unfinished,
			Stalled: s.stalled, Ended: func(why error) { s.lost(why, true) },
		},
	})
	err = r.Open(ctx, &forward.Subscribe{
		Topic: s.ask.Topic, Incarnation: s.topic.incarnation, Channel: s.ask.Channel, Partitions: partitions,
		Ordered: s.ask.Ordered, MsgTimeout: s.ask.MsgTimeout, SampleRate: s.ask.SampleRate, Start: s.ask.Start, Client: about,
		Tag: s.ask.Tag, Filter: s.ask.Filter.Raw(),
	})
	if err != nil {
		if !answered(err) && fate.Of(err) == fate.Refused {
			err = fate.Mark(fmt.Errorf("%w: %w", errNotReached, err), fate.Refused)
		}
		return err
	}
	if !s.change(func(set *sources) { set.relays = append(set.relays, r) }) {
		r.Close()
		return nil
	}
	if r.Gone() { // before lost could know of it
		s.lost(errSubscriptionGone, true)
	}
	s.allot()
	return nil
}

// tooManyConsumers is ErrTooManyConsumers in the words that NSQ clients know.
type tooManyConsumers struct {
	topic, channel string
	limit          int
}

func (e tooManyConsumers) Error() string {
	return fmt.Sprintf("consumers for %s:%s exceeds limit of %d", e.topic, e.channel, e.limit)
}

func (tooManyConsumers) Unwrap() error { return ErrTooManyConsumers }
