package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/channel"
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
// was asked for and this node serves. Take is for one goroutine; the other
// methods may be called by others.
type Subscription struct {
	b         *Broker
	topic     *hostedTopic
	channel   string
	client    Client
	consumers []*topic.Consumer
	turn      int // of Take's goroutine: the consumer that is asked first
	ready     atomic.Int64
	stopped   atomic.Bool
	close     sync.Once
}

// Subscribe joins a channel and creates what is missing of topic and channel.
// Nothing is delivered before SetReady.
func (b *Broker) Subscribe(ctx context.Context, r Subscribe) (*Subscription, error) {
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
	s := &Subscription{b: b, topic: h, channel: r.Channel, client: r.Client}
	if err := s.join(r); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Subscription) join(r Subscribe) error {
	served := s.topic.led()
	if r.Partition >= 0 {
		hp, err := s.topic.servedPartition(r.Partition)
		if err != nil {
			return err
		}
		served = []*ledPartition{hp}
	}
	o := topic.ConsumerOptions{
		Timeout: r.MsgTimeout, MaxTimeout: max(s.b.o.MaxMsgTimeout, r.MsgTimeout), SampleRate: r.SampleRate,
		Wake: r.Wake, Ended: r.Client.Disconnect, Owner: s,
	}
	for _, hp := range served {
		c := hp.part.Channel(r.Channel)
		if c == nil {
			return errChannelClosed
		}
		k, err := c.Join(o, s.b.o.MaxChannelConsumers)
		if err != nil {
			return err
		}
		if k == nil {
			return tooManyConsumers{r.Topic, r.Channel, s.b.o.MaxChannelConsumers}
		}
		s.consumers = append(s.consumers, k)
	}
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

// SetReady sets how many messages may be in flight at once.
func (s *Subscription) SetReady(n int) { s.ready.Store(int64(n)) }

// Take hands over messages: see topic.Consumer.Take. It never lets more be in
// flight than SetReady allows.
func (s *Subscription) Take(now time.Time, max int, emit func(*topic.Delivery) error) (int, error) {
	total := 0
	for range s.consumers {
		free := int(s.ready.Load()) - s.InFlight()
		if free <= 0 || s.stopped.Load() {
			s.pass()
			break
		}
		room := min(free, max-total)
		if room <= 0 {
			break
		}
		k := s.consumers[s.turn]
		if s.turn++; s.turn == len(s.consumers) {
			s.turn = 0
		}
		n, err := k.Take(now, room, emit)
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// pass leaves to others what the subscription was woken for and has no room for.
func (s *Subscription) pass() {
	for _, k := range s.consumers {
		k.Pass()
	}
}

// InFlight returns how many messages the consumer has not answered.
func (s *Subscription) InFlight() int {
	n := 0
	for _, k := range s.consumers {
		n += k.InFlight()
	}
	return n
}

func (s *Subscription) consumerOf(id seq.MessageID) (*topic.Consumer, error) {
	p := id.Partition()
	if len(s.consumers) > p && s.consumers[p].Partition() == p {
		return s.consumers[p], nil
	}
	for _, k := range s.consumers {
		if k.Partition() == p {
			return k, nil
		}
	}
	return nil, ErrNotInFlight
}

// Finish says that the consumer is done with a message.
func (s *Subscription) Finish(id seq.MessageID) error {
	k, err := s.consumerOf(id)
	if err != nil {
		return err
	}
	return k.Finish(id.Offset())
}

// Requeue puts a message back, for delivery after a delay.
func (s *Subscription) Requeue(id seq.MessageID, delay time.Duration) error {
	k, err := s.consumerOf(id)
	if err != nil {
		return err
	}
	return k.Requeue(id.Offset(), time.Now(), delay)
}

// Touch restarts a message's timeout.
func (s *Subscription) Touch(id seq.MessageID) error {
	k, err := s.consumerOf(id)
	if err != nil {
		return err
	}
	return k.Touch(id.Offset(), time.Now())
}

// StopDelivery makes Take hand over nothing more; messages in flight can still
// be answered.
func (s *Subscription) StopDelivery() { s.stopped.Store(true) }

// Close leaves the channel: messages in flight are ready again at once. An
// ephemeral channel that nobody is left in is deleted. Take must not be called
// any more.
func (s *Subscription) Close() {
	s.close.Do(func() {
		left := 0
		for _, k := range s.consumers {
			left += k.Leave()
		}
		if left == 0 && meta.IsEphemeral(s.channel) && !s.b.exiting.Load() {
			s.b.abandon(s.topic, s.channel)
		}
	})
}

// abandon deletes an ephemeral channel whose last consumer left, and its topic
// if that is ephemeral and was its last channel.
func (b *Broker) abandon(h *hostedTopic, channel string) {
	ctx, cancel := context.WithTimeout(context.Background(), abandonTimeout)
	defer cancel()
	for _, hp := range h.led() {
		if gone, err := hp.part.RemoveAbandoned(channel); err != nil || !gone {
			return
		}
	}
	if err := b.dropIfAbandoned(ctx, h); err != nil && !errors.Is(err, ErrExiting) {
		b.log.Warn("deleting an ephemeral channel", "topic", h.name, "channel", channel, "error", err)
	}
}

// abandonTimeout bounds the metadata change that deletes an ephemeral topic.
const abandonTimeout = 10 * time.Second

func (h *hostedTopic) servedPartition(i int) (*ledPartition, error) {
	if lp := h.leds(i); lp != nil {
		return lp, nil
	}
	return nil, fmt.Errorf("%w: %s/%d", ErrPartitionNotFound, h.name, i)
}
