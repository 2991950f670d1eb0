package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// ErrNotInFlight is returned for an answer to a message that is not in flight.
var ErrNotInFlight = channel.ErrNotInFlight

// errChannelClosed is why a subscription fails when its channel goes at that
// moment.
var errChannelClosed = errors.New("the channel was deleted")

// Subscription is a consumer of one channel, over all partitions of it that it
// was asked for and this node leads, or, where it leads none, over those that
// others lead. Take is for one goroutine; the other methods may be called by
// others.
type Subscription struct {
	b       *Broker
	topic   *hostedTopic
	ask     Subscribe
	sources atomic.Pointer[sources]
	turn    int // of Take's goroutine: the source that is asked first
	ready   atomic.Int64
	stopped atomic.Bool
	changed atomic.Bool // the sources are to be looked at again, by Take's goroutine
	unwatch func()      // nil: it stays with what it has

	mu     sync.Mutex // guards what follows, and changes of sources
	closed bool
	shares int // credit was shared out so many times
}

// sources are where a subscription takes from. They are not changed.
type sources struct {
	local  []*localSource
	relays []*relay
}

// localSource is a consumer of a partition that this node leads.
type localSource struct {
	*topic.Consumer
	part *topic.Partition
	gone atomic.Bool // it was told to go
}

// inFlight returns how many messages the consumer has not answered.
func (s *sources) inFlight() int {
	n := 0
	for _, k := range s.local {
		n += k.InFlight()
	}
	if len(s.relays) > 0 {
		now := time.Now()
		for _, r := range s.relays {
			n += r.count(now)
		}
	}
	return n
}

// live returns how many sources have not ended.
func (s *sources) live() int {
	n := 0
	for _, k := range s.local {
		if !k.gone.Load() {
			n++
		}
	}
	for _, r := range s.relays {
		if !r.gone() {
			n++
		}
	}
	return n
}

// covers says whether a source that lives takes from a partition.
func (s *sources) covers(partition int) bool {
	for _, k := range s.local {
		if k.Partition() == partition && !k.gone.Load() {
			return true
		}
	}
	for _, r := range s.relays {
		if r.serves(partition) && !r.gone() {
			return true
		}
	}
	return false
}

// Subscribe joins a channel and creates what is missing of topic and channel.
// Nothing is delivered before SetReady.
//
// At a node that leads partitions of the topic, the subscription is for those;
// at one that leads none, their leaders are asked for messages. When all that it
// is for is led elsewhere, the client is told to disconnect: it will find what
// it needs when it comes again.
func (b *Broker) Subscribe(ctx context.Context, r Subscribe) (*Subscription, error) {
	s, err := b.newSubscription(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := s.begin(ctx); err != nil {
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
	if h.config.Load().Config.Ordered && !r.Ordered {
		r.Ordered = true // order is the topic's promise, however one subscribes
	}
	if err := b.CreateChannel(ctx, r.Topic, r.Channel, r.Ordered); err != nil {
		return nil, err
	}
	if h = b.lookup(r.Topic); h == nil {
		return nil, ErrTopicNotFound
	}
	s := &Subscription{b: b, topic: h, ask: r}
	s.sources.Store(&sources{})
	return s, nil
}

// subscribeFor joins a channel for a client of another node, on partitions that
// this one must lead.
func (b *Broker) subscribeFor(ctx context.Context, m *forward.Subscribe, fd *feed) (*Subscription, error) {
	if h := b.lookup(m.Topic); h == nil || h.incarnation != m.Incarnation {
		return nil, coord.ErrNotLeading // or not yet
	}
	s, err := b.newSubscription(ctx, Subscribe{
		Topic: m.Topic, Channel: m.Channel, Partition: AnyPartition, Ordered: m.Ordered, Client: fd,
		MsgTimeout: m.MsgTimeout, SampleRate: m.SampleRate, Wake: fd.wake,
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
	if err := s.join(led); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// begin finds the first sources. While nobody leads what is asked for, or who
// does is not known here yet, it waits.
func (s *Subscription) begin(ctx context.Context) error {
	n := len(s.topic.config.Load().Partitions)
	if s.ask.Partition >= n {
		return fmt.Errorf("%w: %s/%d", ErrPartitionNotFound, s.ask.Topic, s.ask.Partition)
	}
	ctx, cancel := context.WithTimeout(ctx, s.b.o.PublishTimeout)
	defer cancel()
	for {
		changed := s.b.o.Meta.Changed()
		err := s.find(ctx)
		if err == nil || !passes(err) {
			return err
		}
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
func (s *Subscription) find(ctx context.Context) error {
	led := s.topic.led()
	if s.ask.Partition >= 0 {
		led = nil
		if lp := s.topic.leds(s.ask.Partition); lp != nil {
			led = append(led, lp)
		}
	}
	if len(led) > 0 {
		return s.join(led)
	}
	return s.relayAll(ctx)
}

// join adds consumers of partitions that are led here.
func (s *Subscription) join(led []*ledPartition) error {
	for _, lp := range led {
		if err := s.joinOne(lp); err != nil {
			return err
		}
	}
	return nil
}

func (s *Subscription) joinOne(lp *ledPartition) error {
	r := &s.ask
	c := lp.part.Channel(r.Channel)
	if c == nil {
		return errChannelClosed
	}
	src := &localSource{part: lp.part}
	k, err := c.Join(topic.ConsumerOptions{
		Timeout: r.MsgTimeout, MaxTimeout: s.maxTimeout(), SampleRate: r.SampleRate,
		Wake: r.Wake, Owner: s,
		Ended: func(reason error) {
			src.gone.Store(true)
			s.lost(reason)
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

func (s *Subscription) maxTimeout() time.Duration { return max(s.b.o.MaxMsgTimeout, s.ask.MsgTimeout) }

// change replaces the sources by changed ones, unless the subscription is
// closed.
func (s *Subscription) change(f func(*sources)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	was := s.sources.Load()
	next := &sources{slices.Clone(was.local), slices.Clone(was.relays)}
	f(next)
	s.sources.Store(next)
	return true
}

// relayAll has other nodes deliver what they lead. It is content if some can.
func (s *Subscription) relayAll(ctx context.Context) error {
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
		if err := s.relayFrom(ctx, leader, partitions, false); err != nil {
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
var errNotReached = fate.Refuse("the node was not reached")

// relayFrom has one other node deliver what it leads.
func (s *Subscription) relayFrom(ctx context.Context, leader meta.NodeID, partitions []int, extra bool) error {
	if leader == s.b.o.Self || s.b.o.Remote == nil {
		return fmt.Errorf("%s: %w", s.ask.Topic, coord.ErrNotLeading) // or not yet
	}
	about, err := json.Marshal(s.ask.Client.ClientStats())
	if err != nil {
		return fmt.Errorf("the client's description: %w", err)
	}
	r := &relay{
		remote: s.b.o.Remote, node: leader, handle: s.b.handles.Add(1), partitions: partitions,
		timeout: s.ask.MsgTimeout, maxTimeout: s.maxTimeout(), extra: extra, inFlight: map[seq.MessageID]flight{},
	}
	r.events = relayEvents{wake: s.ask.Wake, starved: s.allot, freed: s.freed, ended: s.lost}
	err = r.open(ctx, &forward.Subscribe{
		Topic: s.ask.Topic, Incarnation: s.topic.incarnation, Channel: s.ask.Channel, Partitions: partitions,
		Ordered: s.ask.Ordered, MsgTimeout: s.ask.MsgTimeout, SampleRate: s.ask.SampleRate, Client: about,
	})
	if err != nil {
		if !answered(err) && fate.Of(err) == fate.Refused {
			err = fate.Mark(fmt.Errorf("%w: %w", errNotReached, err), fate.Refused)
		}
		return err
	}
	if !s.change(func(set *sources) { set.relays = append(set.relays, r) }) {
		r.close()
		return nil
	}
	if r.gone() { // before lost could know of it
		s.lost(errSubscriptionGone)
	}
	s.allot()
	return nil
}

// lost is told that a source has ended. What is led elsewhere now is let go of
// while there are others; otherwise the client must go.
func (s *Subscription) lost(reason error) {
	if movedOn(reason) && s.sources.Load().live() > 0 {
		s.changed.Store(true)
		s.ask.Wake()
		s.b.adopter.poke()
		return
	}
	s.ask.Client.Disconnect(reason)
}

// movedOn says whether a source has ended because another node leads, or none
// for the moment, and not because there is nothing left to consume.
func movedOn(reason error) bool {
	for _, gone := range []error{ErrTopicNotFound, ErrChannelNotFound, topic.ErrChannelNotFound, errPartitionsAdded} {
		if errors.Is(reason, gone) {
			return false
		}
	}
	return true
}

// ledChanged implements watcher.
func (s *Subscription) ledChanged() {
	s.changed.Store(true)
	s.ask.Wake()
}

// renew lets go of sources that have ended and joins the partitions that this
// node leads now. It is for Take's goroutine.
func (s *Subscription) renew() {
	s.changed.Store(false)
	var left []*localSource
	s.change(func(set *sources) {
		set.local = slices.DeleteFunc(set.local, func(k *localSource) bool {
			if gone := k.gone.Load(); gone {
				left = append(left, k)
				return true
			}
			return false
		})
		set.relays = slices.DeleteFunc(set.relays, func(r *relay) bool { return r.gone() })
	})
	for _, k := range left {
		k.Leave()
	}
	if s.unwatch != nil && !s.stopped.Load() {
		s.joinNew()
	}
	s.allot()
}

// joinNew joins the partitions that this node leads and the subscription does
// not take from.
func (s *Subscription) joinNew() {
	for _, lp := range s.topic.led() {
		if slices.ContainsFunc(s.sources.Load().local, func(k *localSource) bool { return k.part == lp.part }) {
			continue
		}
		if meta.IsEphemeral(s.ask.Channel) {
			o := topic.ChannelOptions{Ordered: s.ask.Ordered, Ephemeral: true}
			if _, err := lp.part.AddChannel(s.ask.Channel, 0, o); err != nil {
				continue // it is closing
			}
		}
		if err := s.joinOne(lp); err != nil {
			s.b.log.Info("a consumer stays without a partition that came to this node",
				"topic", s.ask.Topic, "partition", lp.index, "channel", s.ask.Channel, "error", err)
		}
	}
}

// allot shares out what may be in flight among the relays.
func (s *Subscription) allot() {
	set := s.sources.Load()
	if len(set.relays) == 0 {
		return
	}
	s.mu.Lock()
	claims := make([]claim, len(set.relays))
	for i, r := range set.relays {
		claims[i] = r.claim()
	}
	ready := int(s.ready.Load())
	if s.stopped.Load() {
		ready = 0
	}
	s.shares++
	parts := allot(ready, min(len(set.local), 1), s.shares, claims)
	for i, r := range set.relays {
		r.assign(parts[i])
	}
	s.mu.Unlock()
	for _, r := range set.relays {
		r.tell()
		if ready == 0 {
			r.dropQueue()
		}
	}
}

// freed lets another relay have the credit of one that has no message in flight
// any more, where there is not enough for all.
func (s *Subscription) freed() {
	if set := s.sources.Load(); int(s.ready.Load()) < len(set.relays)+len(set.local) {
		s.allot()
	}
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

// SetReady sets how many messages may be in flight at once.
func (s *Subscription) SetReady(n int) {
	s.ready.Store(int64(n))
	s.allot()
}

// Take hands over messages: see topic.Consumer.Take. It never lets more be in
// flight than SetReady allows.
func (s *Subscription) Take(now time.Time, max int, emit func(*topic.Delivery) error) (int, error) {
	if s.changed.Load() {
		s.renew()
	}
	set := s.sources.Load()
	n := len(set.local) + len(set.relays)
	total := 0
	for range n {
		free := int(s.ready.Load()) - set.inFlight()
		if free <= 0 || s.stopped.Load() {
			s.pass()
			for _, r := range set.relays {
				r.await(now)
			}
			break
		}
		room := min(free, max-total)
		if room <= 0 {
			break
		}
		if s.turn >= n {
			s.turn = 0
		}
		took, err := set.take(s.turn, now, room, emit)
		s.turn++
		total += took
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// take takes from the source of a number.
func (s *sources) take(i int, now time.Time, max int, emit func(*topic.Delivery) error) (int, error) {
	if i < len(s.local) {
		return s.local[i].Take(now, max, emit)
	}
	return s.relays[i-len(s.local)].take(now, max, emit)
}

// pass leaves to others what the subscription was woken for and has no room for.
// It is for Take's goroutine.
func (s *Subscription) pass() {
	for _, k := range s.sources.Load().local {
		k.Pass()
	}
}

// expects says whether there would be something if more could be in flight; if
// not, Wake will be called when there is. It is for Take's goroutine.
func (s *Subscription) expects(now time.Time) bool {
	some := false
	for _, k := range s.sources.Load().local {
		// of no messages: it only has itself woken
		_, _ = k.Take(now, 0, nil)
		if c := k.part.Channel(s.ask.Channel); c != nil && c.Stats().Depth > 0 {
			some = true
		}
	}
	return some
}

// InFlight returns how many messages the consumer has not answered.
func (s *Subscription) InFlight() int { return s.sources.Load().inFlight() }

// counts returns the sums over the partitions that are led here.
func (s *Subscription) counts() topic.ConsumerCounts {
	var sum topic.ConsumerCounts
	for _, k := range s.sources.Load().local {
		sum.Add(k.Counts())
	}
	return sum
}

// sourceOf returns where a message came from: a consumer, or a relay, or
// neither.
func (s *Subscription) sourceOf(id seq.MessageID) (*topic.Consumer, *relay) {
	p := id.Partition()
	set := s.sources.Load()
	if len(set.local) > p && set.local[p].Partition() == p {
		return set.local[p].Consumer, nil
	}
	for _, k := range set.local {
		if k.Partition() == p {
			return k.Consumer, nil
		}
	}
	for _, r := range set.relays {
		if r.serves(p) {
			return nil, r
		}
	}
	return nil, nil
}

// Finish says that the consumer is done with a message.
func (s *Subscription) Finish(id seq.MessageID) error {
	k, r := s.sourceOf(id)
	switch {
	case k != nil:
		return k.Finish(id.Offset())
	case r != nil:
		return r.finish(id)
	}
	return ErrNotInFlight
}

// Requeue puts a message back, for delivery after a delay.
func (s *Subscription) Requeue(id seq.MessageID, delay time.Duration) error {
	k, r := s.sourceOf(id)
	switch {
	case k != nil:
		return k.Requeue(id.Offset(), time.Now(), delay)
	case r != nil:
		return r.requeue(id, delay)
	}
	return ErrNotInFlight
}

// Touch restarts a message's timeout.
func (s *Subscription) Touch(id seq.MessageID) error {
	k, r := s.sourceOf(id)
	switch {
	case k != nil:
		return k.Touch(id.Offset(), time.Now())
	case r != nil:
		return r.touch(id)
	}
	return ErrNotInFlight
}

// StopDelivery makes Take hand over nothing more; messages in flight can still
// be answered.
func (s *Subscription) StopDelivery() {
	s.stopped.Store(true)
	s.allot()
}

// Close leaves the channel: messages in flight are ready again at once. An
// ephemeral channel that nobody is left in is deleted. Take must not be called
// any more.
func (s *Subscription) Close() {
	s.mu.Lock()
	was := s.closed
	s.closed = true
	set := s.sources.Load()
	s.mu.Unlock()
	if was {
		return
	}
	if s.unwatch != nil {
		s.unwatch()
		s.b.adopter.forget(s)
	}
	for _, r := range set.relays {
		r.close()
	}
	left := 0
	for _, k := range set.local {
		left += k.Leave()
	}
	if left == 0 && len(set.local) > 0 && meta.IsEphemeral(s.ask.Channel) && !s.b.exiting.Load() {
		s.b.abandon(s.topic, s.ask.Channel)
	}
}

// abandon deletes an ephemeral channel whose last consumer left, and its topic
// if that is ephemeral and was its last channel.
func (b *Broker) abandon(h *hostedTopic, channel string) {
	ctx, cancel := context.WithTimeout(context.Background(), abandonTimeout)
	defer cancel()
	for _, lp := range h.led() {
		if gone, err := lp.part.RemoveAbandoned(channel); err != nil || !gone {
			return
		}
	}
	if err := b.dropIfAbandoned(ctx, h); err != nil && !errors.Is(err, ErrExiting) {
		b.log.Warn("deleting an ephemeral channel", "topic", h.name, "channel", channel, "error", err)
	}
}

// abandonTimeout bounds the metadata change that deletes an ephemeral topic.
const abandonTimeout = 10 * time.Second
