package consume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/internal/complaint"
	"github.com/brokerd/brokerd/internal/fan"
	"github.com/brokerd/brokerd/pkg/directory"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/header"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/lease"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/relay"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/stats"
	"github.com/brokerd/brokerd/pkg/topic"
)

// Subscribe is a request to join a channel.
type Subscribe struct {
	Topic     string
	Channel   string
	Partition int  // AnyPartition: all partitions that this node serves
	Ordered   bool // one message of a partition at a time, in order
	Client    Client
	// MsgTimeout is how long a delivered message may stay unanswered.
	MsgTimeout time.Duration
	// SampleRate from 1 to 99 delivers that percentage of messages and finishes
	// the others; 0 delivers all.
	SampleRate int
	Start      topic.Start    // of the channel
	Tag        string         // see topic.ConsumerOptions
	Filter     *header.Filter // likewise
	// Wake signals that Take may now return messages. It may be called from any goroutine; it
	// must not block or call the broker.
	Wake func()
	// Serve is called instead of Wake if it may call Take itself: see topic.ConsumerOptions. nil:
	// Wake.
	Serve func()
}

// followsLeaders reports whether the subscription is served from wherever the leaders are. One that another node relays
// stays with this node, and one to a single partition with its leader.
func (r *Subscribe) followsLeaders() bool {
	_, relayed := r.Client.(*relaySource)
	return r.Partition < 0 && !relayed
}

// isOrdered reports whether the channel has an order, as far as the metadata knows. t is its topic, nil if there is none.
func (r *Subscribe) isOrdered(t *meta.Topic) bool {
	if t == nil || r.Ordered {
		return true
	}
	c := t.Channels[r.Channel]
	return c != nil && c.Order.Some()
}

// Client describes the connection of a subscription. Stats may be called at any time.
type Client interface {
	ClientStats() stats.Client
	// Disconnect ends the connection with a reason; it does not wait.
	Disconnect(reason error)
	// Unfinished reports that an accepted Finish failed at the leader: the message will be
	// redelivered. It may be called from any goroutine and must not block.
	Unfinished(id seq.MessageID, reason error)
}

// Options configure consumers.
type Options struct {
	Self                meta.NodeID
	Meta                *raftstore.Store
	Calls               forward.Caller // to other nodes
	Logger              *slog.Logger
	Memory              *limit.Memory // for messages that other nodes send for clients of this one; nil: no limit
	MaxChannelConsumers int           // on this node; 0: no limit
	MaxMsgTimeout       time.Duration // maximum to which TOUCH can extend a delivery
	PublishTimeout      time.Duration // how long a subscription waits for a leader
	Lease               time.Duration // without contact to a quorum for longer, nothing is delivered
}

// Consumers are the subscriptions on this node: of its own clients, and of remote consumers of
// partitions led here. Its methods are safe for concurrent use.
type Consumers struct {
	o          Options
	host       *host.Host
	topics     *directory.Directory
	relayed    *relaySources
	adopter    *adopter
	pulse      *lease.Pulse
	handles    atomic.Uint64   // of relays
	complaints complaint.Book  // about clients
	tasks      *fan.Group      // runs goroutines that Close waits for
	life       context.Context // ends when relayed subscriptions must end
}

// New returns consumers whose goroutines belong to a group. life ends before the group is closed.
func New(life context.Context, o Options, h *host.Host, d *directory.Directory, tasks *fan.Group) *Consumers {
	c := &Consumers{o: o, host: h, topics: d, pulse: lease.NewPulse(o.Lease, lease.NewSuspension(lease.TimeSuspended)), tasks: tasks, life: life}
	c.relayed = &relaySources{c: c, all: map[sourceKey]*relaySource{}}
	c.adopter = newAdopter(c)
	return c
}

// Start runs the background work until ctx ends.
func (c *Consumers) Start(ctx context.Context) {
	if c.o.Calls.Remote == nil {
		return
	}
	c.tasks.Go(func() { c.adopter.run(ctx) })
	c.tasks.Go(func() { beat.Every(ctx, c.pulse.Interval(), func() { c.Beat(time.Now()) }) })
}

// Beat records that the process runs at a time. After a longer gap, relays drop messages sent
// before it.
func (c *Consumers) Beat(now time.Time) { c.pulse.Beat(now) }

// Register adds the operations that other nodes may call.
func (c *Consumers) Register(all forward.Operations) {
	forward.Register(all, askConsumers, c.adopter.consumers)
}

// HandleRelay handles a call of another node about a relayed subscription.
func (c *Consumers) HandleRelay(from meta.NodeID, session uint64, kind uint8, payload []byte, reply func([][]byte, error)) {
	c.relayed.handle(from, session, kind, payload, reply)
}

// Down reports that a session of another node has ended.
func (c *Consumers) Down(from meta.NodeID, session uint64) { c.relayed.down(from, session) }

// Relayed returns how many subscriptions on this node serve clients of other nodes, and how many
// were begun at other nodes for clients here.
func (c *Consumers) Relayed() (served int, begun uint64) {
	c.relayed.mu.Lock()
	defer c.relayed.mu.Unlock()
	return len(c.relayed.all), c.handles.Load()
}

// Subscribe subscribes to a channel; a missing topic or channel is created. Nothing is
// delivered before SetReady.
//
// On a node that leads partitions of the topic, the subscription covers those; on one that
// leads none, it relays from their leaders. If the leadership of partitions moves, the subscription relays
// them from the new leaders. A client that asked for one partition is disconnected instead.
//
// An ephemeral topic may be deleted meanwhile, because its last channel was; then a new one is created.
func (c *Consumers) Subscribe(ctx context.Context, r Subscribe) (*Subscription, error) {
	limited, cancel := context.WithTimeout(ctx, c.o.PublishTimeout)
	defer cancel()
	for {
		changed, was := c.o.Meta.Changed(), c.o.Meta.Topic(r.Topic)
		s, err := c.subscribe(ctx, r)
		if !meta.IsEphemeral(r.Topic) || !errors.Is(err, failure.TopicNotFound) || was == nil && !c.topics.MakesTopics() {
			return s, err
		}
		again := time.NewTimer(findAgain)
		select {
		case <-changed:
		case <-again.C:
		case <-limited.Done():
			again.Stop()
			return nil, err
		}
		again.Stop()
	}
}

func (c *Consumers) subscribe(ctx context.Context, r Subscribe) (*Subscription, error) {
	s, err := c.newSubscription(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := (joiner{s}).begin(ctx); err != nil {
		if s.Close(); fate.Of(err) == fate.Refused {
			s.uncount()
		}
		return nil, err
	}
	if r.Partition < 0 {
		s.unwatch = s.topic.Watch(s)
		s.LedChanged() // join what was led since
		c.adopter.add(s)
	}
	return s, nil
}

// newSubscription returns a subscription without sources.
func (c *Consumers) newSubscription(ctx context.Context, r Subscribe) (*Subscription, error) {
	if !meta.ValidChannelName(r.Channel) {
		return nil, fmt.Errorf("%w: %q", failure.InvalidChannel, r.Channel)
	}
	h, err := c.topics.EnsureHosted(ctx, r.Topic)
	if err != nil {
		return nil, err
	}
	if t := h.Config(); r.Partition >= len(t.Partitions) {
		return nil, fmt.Errorf("%w: %s/%d", failure.PartitionNotFound, r.Topic, r.Partition)
	}
	if h.Config().Config.Ordered && !r.Ordered {
		r.Ordered = true // an ordered topic is ordered for every subscription
	}
	if err := c.topics.EnsureChannel(ctx, meta.CreateChannel{Topic: r.Topic, Channel: r.Channel, Order: policy.StrictIf(r.Ordered)}); err != nil {
		return nil, err
	}
	if h = c.host.Lookup(r.Topic); h == nil {
		return nil, failure.TopicNotFound
	}
	if have := h.Config().Channels[r.Channel]; r.Ordered && have != nil && !have.Order.Some() { // keep the order that an operator chose
		order := policy.Strict
		if err := c.topics.Change(ctx, r.Topic, meta.AlterChannel{Topic: r.Topic, Channel: r.Channel, Order: &order}); err != nil {
			return nil, err
		}
	}
	uncount := func() {}
	if meta.IsEphemeral(r.Channel) && len(h.AllLed()) == 0 && !consumes(h, r.Channel) {
		// A leader creates it, which does not know the client.
		if uncount, err = limit.Create(ctx, 1); err != nil {
			return nil, err
		}
	}
	s := &Subscription{c: c, topic: h, ask: r, uncount: uncount}
	s.carried.flights, s.carried.answers, s.carried.claims = map[seq.MessageID]relay.Flight{}, map[seq.MessageID]relay.Answer{}, map[int]time.Time{}
	if r.followsLeaders() {
		s.identity = topic.Identity{Node: string(c.o.Self), Number: rand.Uint64()}
	}
	s.Sources.Store(&Sources{})
	s.resting.Store(time.Now().UnixNano())
	return s, nil
}

// subscribeFor joins a channel for a client of another node, on partitions that this node must
// lead.
func (c *Consumers) subscribeFor(ctx context.Context, from meta.NodeID, m *forward.Subscribe, fd *relaySource) (*Subscription, error) {
	if h := c.host.Lookup(m.Topic); h == nil || h.Incarnation != m.Incarnation {
		return nil, failure.NotLeading // or not yet
	}
	filter, err := header.ParseFilter(m.Filter)
	if err != nil {
		return nil, err
	}
	s, err := c.newSubscription(ctx, Subscribe{
		Topic: m.Topic, Channel: m.Channel, Partition: host.AnyPartition, Ordered: m.Ordered, Client: fd,
		MsgTimeout: m.MsgTimeout, SampleRate: m.SampleRate, Start: m.Start, Tag: m.Tag, Filter: filter, Wake: fd.wake,
	})
	if err != nil {
		return nil, err
	}
	if s.relayedFor = m; m.Number != 0 {
		s.identity = topic.Identity{Node: string(from), Number: m.Number}
	}
	var led []*host.Led
	for _, i := range m.Partitions {
		lp := s.topic.Led(i)
		if lp == nil {
			return nil, fmt.Errorf("%s/%d: %w", m.Topic, i, failure.NotLeading)
		}
		led = append(led, lp)
	}
	if err := (joiner{s}).join(ctx, led); err != nil {
		s.Close()
		return nil, err
	}
	s.ask.Start, s.relayedFor = topic.Start{}, nil // they apply only to what is joined now
	s.relayed = map[int]seq.Epoch{}
	for _, lp := range led {
		s.relayed[lp.Index] = lp.Term.Epoch()
	}
	s.unwatch = s.topic.Watch(s)
	s.LedChanged() // join what was led since
	return s, nil
}

// joiner finds sources for a subscription.
type joiner struct{ s *Subscription }

// begin finds the first sources. While the partitions have no leader, or this node does not know it
// yet, it waits.
func (j joiner) begin(ctx context.Context) error {
	s := j.s
	ctx, cancel := context.WithTimeout(ctx, s.c.o.PublishTimeout)
	defer cancel()
	var last error
	for {
		changed := s.c.o.Meta.Changed()
		err := j.find(ctx)
		switch {
		case err == nil:
			s.ask.Start = topic.Start{} // it applies only to what is joined now
			return nil
		case !retryable(err) && last != nil && ctx.Err() != nil:
			return last // more specific than the expired context
		case !retryable(err):
			return err
		}
		last = err
		again := time.NewTimer(findAgain)
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

// retryable reports whether the obstacle to a subscription may disappear soon.
func retryable(err error) bool {
	return fate.Of(err) == fate.Refused && (host.Moving(err) || errors.Is(err, failure.NoLeader) || errors.Is(err, failure.ShuttingDown) ||
		!directory.Answered(err) && errors.Is(err, ErrNotReached))
}

// find joins the partitions that are led here, or relays others.
func (j joiner) find(ctx context.Context) error {
	s := j.s
	led := s.topic.AllLed()
	if s.ask.Partition >= 0 {
		led = nil
		if lp := s.topic.Led(s.ask.Partition); lp != nil {
			led = append(led, lp)
		}
	}
	if len(led) > 0 {
		return joiner{s}.join(ctx, led)
	}
	return joiner{s}.relayAll(ctx)
}

// join adds consumers of partitions that are led here, except of those that it has joined before.
func (j joiner) join(ctx context.Context, led []*host.Led) error {
	s := j.s
	for _, lp := range led {
		if s.Sources.Load().takes(lp.Part) {
			continue
		}
		if c, err := j.channel(lp); err != nil {
			return err
		} else if err = s.ask.Start.Move(ctx, c); err != nil {
			return err
		}
		if err := (joiner{s}).joinOne(lp); err != nil {
			return err
		}
	}
	return nil
}

func (j joiner) joinOne(lp *host.Led) error {
	s := j.s
	r := &s.ask
	client := r.Client.ClientStats()
	src := &localSource{part: lp.Part}
	holding := s.holding([]int{lp.Index})
	var self atomic.Pointer[topic.Consumer] // before its first message is taken
	k, err := j.enter(lp, topic.ConsumerOptions{
		Timeout: r.MsgTimeout, MaxTimeout: s.maxTimeout(), SampleRate: r.SampleRate, Tag: r.Tag, Filter: r.Filter,
		Wake: s.wake, Serve: func() { serve(s) }, Owner: s, Name: client.Name(), Identity: s.identity, Holding: offsetsOf(holding),
		Company:    func() bool { k := self.Load(); return k != nil && s.company(k) },
		Unfinished: func(o seq.Offset, err error) { s.ask.Client.Unfinished(seq.NewMessageID(lp.Index, o), err) },
		Ended: func(reason error) {
			src.gone.Store(true)
			s.lost(reason)
		},
	})
	if err != nil {
		return err
	}
	if k == nil {
		return tooManyConsumers{r.Topic, r.Channel, s.c.o.MaxChannelConsumers}
	}
	if s.topic.Led(lp.Index) != lp { // if it was closed before it had the channel, its closing did not end the channel
		k.Leave()
		return fmt.Errorf("%s/%d: %w", r.Topic, lp.Index, failure.NotLeading)
	}
	src.Consumer = k
	self.Store(k)
	var x resumed
	if !s.change(func(set *Sources) {
		set.local = append(set.local, src)
		kept := (&Sources{local: []*localSource{src}}).inFlight(time.Now())
		x = s.carried.resume([]int{lp.Index}, holding, kept, r.MsgTimeout, time.Now())
	}) {
		k.Leave()
	}
	s.resume(x)
	return nil
}

// offsetsOf returns the offsets of messages.
func offsetsOf(ids []seq.MessageID) (all []seq.Offset) {
	for _, id := range ids {
		all = append(all, id.Offset())
	}
	return all
}

// enter joins the channel of a partition. An ephemeral channel that was deleted with its last consumer
// meanwhile is created again; a partition that this node has ceased to lead is NotLeading.
func (j joiner) enter(lp *host.Led, o topic.ConsumerOptions) (*topic.Consumer, error) {
	for {
		c, err := j.channel(lp)
		if err != nil {
			return nil, err
		}
		k, err := c.Join(o, j.s.c.o.MaxChannelConsumers)
		switch {
		case errors.Is(err, host.ErrLedElsewhere):
			return nil, fmt.Errorf("%s/%d: %w", j.s.ask.Topic, lp.Index, failure.NotLeading)
		case !c.Ephemeral() || !errors.Is(err, failure.ChannelNotFound):
			return k, err
		}
	}
}

// channel returns the channel of a partition. A missing ephemeral channel is created: the metadata
// does not know it, and the partition was not led here when the subscription began.
func (j joiner) channel(lp *host.Led) (*topic.Channel, error) {
	r := &j.s.ask
	if c := lp.Part.Channel(r.Channel); c != nil {
		return c, nil
	}
	if !meta.IsEphemeral(r.Channel) {
		return nil, errChannelClosed
	}
	return directory.AddEphemeral(j.s.c.topics, j.s.topic, lp, r.Channel, policy.StrictIf(r.Ordered))
}

func (s *Subscription) maxTimeout() time.Duration {
	return max(s.c.o.MaxMsgTimeout, s.ask.MsgTimeout)
}

// relayAll relays from all other leaders. It succeeds if some can be reached.
func (j joiner) relayAll(ctx context.Context) error {
	s := j.s
	byLeader := map[meta.NodeID][]int{}
	t := s.c.o.Meta.Topic(s.ask.Topic)
	if t == nil || t.Incarnation != s.topic.Incarnation {
		return failure.TopicNotFound
	}
	for i := range t.Partitions {
		if leader := t.Partitions[i].Leader; leader != "" && (s.ask.Partition < 0 || s.ask.Partition == i) {
			byLeader[leader] = append(byLeader[leader], i)
		}
	}
	var errs []error
	for leader, partitions := range byLeader {
		if err := (joiner{s}).relayFrom(ctx, leader, partitions, false); err != nil {
			errs = append(errs, err)
		}
	}
	switch {
	case len(errs) < len(byLeader):
		return nil
	case len(errs) == 0:
		return fmt.Errorf("topic %s: %w", s.ask.Topic, failure.NoLeader)
	}
	return errs[0]
}

// findAgain is the delay before the search for sources is repeated.
const findAgain = 50 * time.Millisecond

// ErrNotReached is also wrapped by the failure of a call that never arrived.
var ErrNotReached = fate.Refuse("node unreachable")

// relayFrom relays from one other node.
func (j joiner) relayFrom(ctx context.Context, leader meta.NodeID, partitions []int, extra bool) error {
	s := j.s
	if leader == s.c.o.Self || s.c.o.Calls.Remote == nil {
		return fmt.Errorf("%s: %w", s.ask.Topic, failure.NotLeading) // or not yet
	}
	client := s.ask.Client.ClientStats()
	client.State = stats.Subscribed // once this succeeds
	about, err := json.Marshal(client)
	if err != nil {
		return fmt.Errorf("encode client description: %w", err)
	}
	starved := func() {
		s.allot()
		s.wake() // if others keep unused credit, Take moves it
	}
	epochs := map[int]seq.Epoch{} // before it joins: if there are newer ones already, the relay only ends unnecessarily
	if t := s.c.o.Meta.Topic(s.ask.Topic); t != nil && t.Incarnation == s.topic.Incarnation {
		for _, i := range partitions {
			epochs[i] = t.Partitions[i].Epoch
		}
	}
	r := relay.New(relay.Options{
		Epochs: epochs,
		Remote: s.c.o.Calls.Remote, FromRemote: forward.FromRemote, Node: leader, Handle: s.c.handles.Add(1),
		Partitions: partitions, Extra: extra, Running: s.c.pulse.Begin(), Memory: s.c.o.Memory,
		Timeout: s.ask.MsgTimeout, MaxTimeout: s.maxTimeout(),
		Events: relay.Events{
			Wake: s.wake, Starved: starved, Freed: s.freed, Unfinished: s.ask.Client.Unfinished,
			Stalled: s.stalled, Ended: s.lost, Departed: s.returnTo,
		},
	})
	holding := s.holding(partitions)
	kept, err := r.Open(ctx, &forward.Subscribe{
		Topic: s.ask.Topic, Incarnation: s.topic.Incarnation, Channel: s.ask.Channel, Partitions: partitions,
		Ordered: s.ask.Ordered, MsgTimeout: s.ask.MsgTimeout, SampleRate: s.ask.SampleRate, Start: s.ask.Start, Client: about,
		Tag: s.ask.Tag, Filter: s.ask.Filter.Raw(), Number: s.identity.Number, Holding: holding,
	})
	if err != nil {
		if !directory.Answered(err) && fate.Of(err) == fate.Refused {
			err = fate.Mark(fmt.Errorf("%w: %w", ErrNotReached, err), fate.Refused)
		}
		return err
	}
	var x resumed
	if !s.change(func(set *Sources) {
		set.Relays = append(set.Relays, r)
		x = s.carried.resume(partitions, holding, kept, s.ask.MsgTimeout, time.Now())
		for id, f := range x.flights {
			r.Keep(id, f)
		}
	}) {
		r.Close(true)
		return nil
	}
	r.Start()
	s.resume(x)
	if r.Gone() { // before lost could handle it
		s.lost(failure.SubscriptionGone)
	}
	s.allot()
	return nil
}

// tooManyConsumers is failure.TooManyConsumers with a text for NSQ clients.
type tooManyConsumers struct {
	topic, channel string
	limit          int
}

func (e tooManyConsumers) Error() string {
	return fmt.Sprintf("consumers for %s:%s exceeds limit of %d", e.topic, e.channel, e.limit)
}

func (tooManyConsumers) Unwrap() error { return failure.TooManyConsumers }

// consumes reports whether a subscription on this node takes from a channel of the topic.
func consumes(h *host.Topic, channel string) bool {
	return h.IsWatched(func(w host.Watcher) bool {
		s, ok := w.(*Subscription)
		return ok && s.ask.Channel == channel
	})
}
