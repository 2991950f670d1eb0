package consume

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/directory"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/relay"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/stats"
	"github.com/brokerd/brokerd/pkg/topic"
)

// errChannelClosed is the error of a subscription whose channel is deleted at that moment.
var errChannelClosed = errors.New("channel deleted")

// Subscription consumes one channel. It covers the requested partitions led here; if none is, it
// relays from their leaders. One goroutine may call Take; the other methods are safe for concurrent
// use.
type Subscription struct {
	c          *Consumers
	topic      *host.Topic
	ask        Subscribe
	uncount    func() // undoes the charge for a channel that a leader was to create
	Sources    atomic.Pointer[Sources]
	turn       int              // used by Take's goroutine: the source to try first
	room       roomTimer        // used by Take's goroutine
	delivered  deliveredSources // used by Take's goroutine
	known      *meta.Topic      // used by Take's goroutine: the metadata by which relays were last checked
	idleCredit idleCredit
	ready      atomic.Int64
	resting    atomic.Int64 // since when ready is 0, in ns since 1970
	awaited    atomic.Int64 // since when a call of Take is due, in ns since 1970; 0: none is
	stopped    atomic.Bool
	cutOff     atomic.Bool        // for a client of another node: it may not have ended its connection alone
	changed    atomic.Bool        // Take's goroutine must check the sources again
	unwatch    func()             // nil: its sources do not change
	identity   topic.Identity     // zero: what is in flight does not follow it to the next leader
	relayedFor *forward.Subscribe // of another node's client, until it has joined; nil: it is a client of this node
	relayed    map[int]seq.Epoch  // used by Take's goroutine: for another node's relay, its partitions and the epochs in which they were joined

	mu      sync.Mutex // guards what follows, and changes of sources
	closed  bool
	over    bool // its client is being disconnected
	shares  int  // how often credit was divided
	carried carried
}

// change replaces the sources, unless the subscription is closed.
func (s *Subscription) change(f func(*Sources)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	was := s.Sources.Load()
	next := &Sources{slices.Clone(was.local), slices.Clone(was.Relays)}
	f(next)
	s.Sources.Store(next)
	return true
}

// lost handles the end of a source. If the leadership of its partitions has moved, the client stays
// connected, and is served from the new leader: many client libraries wait for a minute before they
// connect again. Without another source, a client that asked for one partition is disconnected, as it
// looks for the leader itself; so is another node, and every client of a node that is about to stop.
func (s *Subscription) lost(reason error) {
	stays := s.Sources.Load().Live() > 0 || s.ask.followsLeaders() && !s.c.host.Leaving()
	if stays && movedOn(reason) {
		s.LedChanged()
		s.c.adopter.poke()
		return
	}
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.ask.Client.Disconnect(reason)
}

// movedOn reports whether a source has ended because another node leads, or none at the moment, and
// not because the channel or topic is gone.
func movedOn(reason error) bool {
	for _, gone := range []error{failure.TopicNotFound, failure.ChannelNotFound} {
		if errors.Is(reason, gone) {
			return false
		}
	}
	return true
}

// LedChanged implements watcher.
func (s *Subscription) LedChanged() {
	s.changed.Store(true)
	s.wake()
}

// renew releases ended sources and joins the partitions that this node leads now. Take's goroutine
// calls it.
func (s *Subscription) renew() {
	s.changed.Store(false)
	var left []*localSource
	s.change(func(set *Sources) {
		s.collectLocked(time.Now())
		set.local = slices.DeleteFunc(set.local, func(k *localSource) bool {
			if gone := k.gone.Load(); gone {
				left = append(left, k)
				return true
			}
			return false
		})
		set.Relays = slices.DeleteFunc(set.Relays, func(r *relay.Relay) bool { return r.Gone() })
	})
	for _, k := range left {
		k.Leave()
	}
	switch {
	case s.unwatch == nil || s.stopped.Load():
	case s.relayed != nil:
		joiner{s}.joinAgain()
	default:
		joiner{s}.joinNew()
	}
	s.allot()
}

// joinAgain joins partitions of a relay that this node leads in the next epoch. No other node has led them in
// between, so the relay still covers them, and its node does not subscribe to them again. If another node may have
// led, the relay ends, and its node subscribes to the current leaders. It also ends if the channel has an order: the
// relay may hold messages of the earlier term that are delivered to other consumers first now.
func (j joiner) joinAgain() {
	s := j.s
	ordered := s.ask.isOrdered(s.c.o.Meta.Topic(s.ask.Topic))
	for i, epoch := range s.relayed {
		lp := s.topic.Led(i)
		switch {
		case lp == nil || lp.Term.Epoch() == epoch:
		case lp.Term.Epoch() != epoch+1 || ordered:
			s.ask.Client.Disconnect(host.ErrLedElsewhere)
			return
		default:
			s.relayed[i] = epoch + 1
			if err := j.joinOne(lp); err != nil {
				s.ask.Client.Disconnect(err)
				return
			}
		}
	}
}

// joinNew joins the partitions that this node leads and the subscription does
// not take from.
func (j joiner) joinNew() {
	s := j.s
	for _, lp := range s.topic.AllLed() {
		if s.Sources.Load().takes(lp.Part) {
			continue
		}
		if meta.IsEphemeral(s.ask.Channel) {
			if _, err := directory.AddEphemeral(s.c.topics, s.topic, lp, s.ask.Channel, policy.StrictIf(s.ask.Ordered)); err != nil {
				continue // it is closing
			}
		}
		if err := j.joinOne(lp); err != nil {
			s.c.complaints.Log(s.c.o.Logger, slog.LevelInfo, time.Now(), "cannot attach consumer to a partition now led by this node; retrying",
				"topic", s.ask.Topic, "partition", lp.Index, "channel", s.ask.Channel, "error", err)
		}
	}
}

// allot divides the credit among the relays.
func (s *Subscription) allot() {
	s.share(func(ready, _, others, turn int, claims []relay.Claim) []int {
		return relay.Allot(ready, others, turn, claims)
	})
}

// share gives the relays the shares that a rule returns, if any.
func (s *Subscription) share(rule func(ready, local, others, turn int, claims []relay.Claim) []int) {
	set := s.Sources.Load()
	if len(set.Relays) == 0 {
		return
	}
	s.mu.Lock()
	claims := make([]relay.Claim, len(set.Relays))
	for i, r := range set.Relays {
		claims[i] = r.Claim()
	}
	ready := int(s.ready.Load())
	if s.stopped.Load() {
		ready = 0
	}
	s.shares++
	parts := rule(ready, set.localInFlight()+int(s.carried.count.Load()), set.others(), s.shares, claims)
	if parts != nil {
		for i, r := range set.Relays {
			r.Assign(parts[i], ready == 0)
		}
		s.idleCredit.redistributed.Store(slices.Min(parts) < ready/(len(parts)+set.others()))
	}
	s.mu.Unlock()
	for _, r := range set.Relays {
		r.Tell()
		if ready == 0 {
			r.ReturnQueued()
		}
	}
}

// freed gives the credit of a relay that no longer has a message in flight to another one, if there
// is not enough for all.
func (s *Subscription) freed() {
	if set := s.Sources.Load(); int(s.ready.Load()) < len(set.Relays)+len(set.local) {
		s.allot()
	}
}

// SetReady sets how many messages may be in flight at once.
func (s *Subscription) SetReady(n int) {
	if was := s.ready.Swap(int64(n)); n == 0 && was > 0 {
		s.resting.Store(time.Now().UnixNano())
	}
	s.allot()
}

// wake requests a call of Take.
func (s *Subscription) wake() {
	s.awaited.CompareAndSwap(0, time.Now().UnixNano())
	s.ask.Wake()
}

// serve requests a call of Take, possibly by the caller.
func serve(s *Subscription) {
	if s.ask.Serve == nil {
		s.wake()
		return
	}
	s.awaited.CompareAndSwap(0, time.Now().UnixNano())
	s.ask.Serve()
}

// AtHand reports whether Take finds the next message without waiting for a disk or another node. Call it
// from Take's goroutine.
func (s *Subscription) AtHand() bool {
	set := s.Sources.Load()
	if len(set.Relays) > 0 || s.changed.Load() || s.stopped.Load() {
		return false
	}
	for _, k := range set.local {
		if !k.Waits() && !k.AtHand() || k.gone.Load() {
			return false
		}
	}
	return slices.ContainsFunc(set.local, func(k *localSource) bool { return k.AtHand() })
}

// Waits reports that Take found nothing although there was capacity, and nothing has arrived since.
// Wake is called when something does, so an answer need not be followed by a Take.
func (s *Subscription) Waits() bool {
	set := s.Sources.Load()
	return len(set.Relays) == 0 && !slices.ContainsFunc(set.local, func(k *localSource) bool { return !k.Waits() })
}

// consumes reports whether the client takes messages, as known on this node: it reads and has
// credit, or recently did. Partitions that depend on a client that does not are given to others.
func (s *Subscription) consumes(now time.Time) bool {
	recent := func(since int64) bool { return now.UnixNano()-since < int64(adoptAfter) }
	awaited := s.awaited.Load()
	return (awaited == 0 || recent(awaited)) && (s.ready.Load() > 0 || recent(s.resting.Load()))
}

// Take delivers messages: see topic.Consumer.Take. It keeps the number in flight within
// SetReady. Call Deliverable before writing them to a socket.
func (s *Subscription) Take(now time.Time, max int, emit func(*topic.Delivery) error) (total int, err error) {
	s.awaited.Store(0)
	defer func() {
		if total > 0 {
			s.awaited.Store(now.UnixNano()) // a further call is due
		}
	}()
	if len(s.Sources.Load().Relays) > 0 {
		// Messages that a leader sent before another took over may have been delivered by the new
		// leader, with later ones.
		if t := s.c.o.Meta.Topic(s.ask.Topic); t != s.known {
			s.known = t
			s.Sources.Load().endStrays(t, s.topic.Incarnation, s.ask.isOrdered(t))
		}
	}
	if s.changed.Load() {
		s.renew()
	}
	s.settle()
	set := s.Sources.Load()
	n := len(set.local) + len(set.Relays)
	if s.defers(set, now) {
		return 0, nil
	}
	for range n {
		free := int(s.ready.Load()) - s.held(set)
		if free <= 0 || s.stopped.Load() {
			s.pass()
			s.room.await(set, now, false, s.wake)
			if !s.stopped.Load() && int(s.ready.Load()) > s.held(set) {
				s.wake() // a message was answered before the consumers stopped waiting: see Waits
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
		if took > 0 {
			s.delivered.add(set, s.turn)
		}
		s.turn++
		total += took
		if err != nil {
			return total, err
		}
		if s.defers(set, now) {
			return total, nil
		}
	}
	if len(set.Relays) > 0 && n > 1 {
		s.idleCredit.observe(s, set, total)
	}
	return total, nil
}

// held returns the number of messages that the client has: those in flight at the sources, and those of leaders that
// no longer lead, which are carried.
func (s *Subscription) held(set *Sources) int { return set.InFlight() + int(s.carried.count.Load()) }

// defers reports whether an isolated message has to wait until the client has answered what it has, or the client
// has one. Then others of its channel get what comes meanwhile. Otherwise a source with such a message is the next to
// take from.
func (s *Subscription) defers(set *Sources, now time.Time) bool {
	from := set.reserved()
	if from < 0 {
		return false
	}
	if s.held(set) == 0 {
		s.turn = from
		return false
	}
	s.pass()
	s.room.await(set, now, true, s.wake)
	if s.held(set) == 0 {
		s.wake() // the last message was answered before the consumers stopped waiting: see Waits
	}
	return true
}

// company reports whether the client has messages in flight other than those of a consumer, or did not end its
// connection itself.
func (s *Subscription) company(of *topic.Consumer) bool {
	return s.cutOff.Load() || s.c.host.Exiting() || s.carried.count.Load() > 0 || s.Sources.Load().company(of)
}

// stalled reports that a client does not read its relayed messages.
func (s *Subscription) stalled(r *relay.Relay, dropped int) {
	s.c.complaints.Warn(s.c.o.Logger, time.Now(), "consumer stopped reading: its messages timed out in transit and are redelivered; delivery resumes when it reads",
		"topic", s.ask.Topic, "channel", s.ask.Channel, "client", s.ask.Client.ClientStats().Address, "leader", r.Node,
		"messages", dropped, "msg_timeout", s.ask.MsgTimeout)
}

// pass leaves to other consumers what the subscription was woken for and has no capacity for.
// Take's goroutine calls it.
func (s *Subscription) pass() {
	for _, k := range s.Sources.Load().local {
		k.Pass()
	}
}

// expects reports whether there would be messages with more capacity; if not, Wake is called when
// there are. Take's goroutine calls it.
func expects(s *Subscription, now time.Time) bool {
	some := false
	for _, k := range s.Sources.Load().local {
		// Taking no messages only registers the consumer as waiting.
		_, _ = k.Take(now, 0, nil)
		if c := k.part.Channel(s.ask.Channel); c != nil && c.Stats().Depth > 0 {
			some = true
		}
	}
	return some
}

// Finish finishes a message.
func (s *Subscription) Finish(id seq.MessageID) error {
	return s.answer(forward.Answer{Verb: forward.Finish, ID: id})
}

// Requeue requeues a message, for delivery after a delay.
func (s *Subscription) Requeue(id seq.MessageID, delay time.Duration) error {
	return s.answer(forward.Answer{Verb: forward.Requeue, ID: id, Delay: delay})
}

// Touch restarts a message's timeout.
func (s *Subscription) Touch(id seq.MessageID) error {
	return s.answer(forward.Answer{Verb: forward.Touch, ID: id})
}

// answer passes the client's answer to the leader. While the leadership of the partition moves, it is kept for the
// next leader.
func (s *Subscription) answer(a forward.Answer) error {
	for again := true; ; again = false {
		k, r := s.Sources.Load().of(a.ID)
		var err error = failure.Moving
		switch {
		case k != nil:
			err = answerHere(k, a)
		case r != nil:
			err = r.Answer(a)
		}
		switch {
		case !errors.Is(err, failure.Moving) || !s.ask.followsLeaders():
			return err
		case s.keep(a, time.Now()):
			return nil
		case !again: // the next leader had not taken over before
			return failure.NotInFlight
		}
	}
}

// answerHere gives an answer to a leader on this node.
func answerHere(k *topic.Consumer, a forward.Answer) error {
	switch o := a.ID.Offset(); a.Verb {
	case forward.Finish:
		return k.Finish(o)
	case forward.Requeue:
		return k.Requeue(o, time.Now(), a.Delay)
	case forward.Touch:
		return k.Touch(o, time.Now())
	case forward.Unseen:
	}
	return failure.NotInFlight
}

// StopDelivery makes Take return no more messages; messages in flight can still be answered.
func (s *Subscription) StopDelivery() {
	s.stopped.Store(true)
	s.allot()
}

// Close leaves the channel: messages in flight are ready again at once. An ephemeral channel
// without consumers is deleted. Take must not be called afterwards.
func (s *Subscription) Close() {
	s.room.stop()
	s.mu.Lock()
	was := s.closed
	s.closed = true
	set := s.Sources.Load()
	s.mu.Unlock()
	if was {
		return
	}
	if s.unwatch != nil {
		s.unwatch()
		s.c.adopter.forget(s)
	}
	s.returnClaims()
	for _, r := range set.Relays {
		r.Close(int64(set.InFlight()) > r.Has() || s.c.host.Exiting())
	}
	left := 0
	for _, k := range set.local {
		left += k.Leave()
	}
	if left == 0 && len(set.local) > 0 && meta.IsEphemeral(s.ask.Channel) && !s.c.host.Exiting() {
		s.c.abandon(s.topic, s.ask.Channel)
	}
}

// abandon deletes an ephemeral channel whose last consumer left, and its topic if that is ephemeral
// and this was its last channel.
func (c *Consumers) abandon(h *host.Topic, channel string) {
	ctx, cancel := context.WithTimeout(context.Background(), abandonTimeout)
	defer cancel()
	for _, lp := range h.AllLed() {
		if gone, err := lp.Part.RemoveAbandoned(channel); err != nil || !gone {
			return
		}
	}
	h.Rates.Forget(channel, func() bool { return host.Serves(h, channel) })
	if err := c.topics.DropIfAbandoned(ctx, h); err != nil && !errors.Is(err, failure.ShuttingDown) {
		c.complaints.Warn(c.o.Logger, time.Now(), "cannot delete an ephemeral topic after its last channel; it stays in memory until it is deleted", "topic", h.Name, "channel", channel, "error", err)
	}
}

// abandonTimeout bounds the metadata change that deletes an ephemeral topic.
const abandonTimeout = 10 * time.Second

// Stats describes the subscription's connection.
func (s *Subscription) Stats() stats.Client {
	c := s.ask.Client.ClientStats()
	c.Ready = s.ready.Load()
	sum := s.Sources.Load().counts()
	c.InFlight, c.DeliveredTotal, c.FinishedTotal = sum.InFlight, sum.Delivered, sum.Finished
	c.RequeuedTotal, c.TimedOutTotal = sum.Requeued, sum.TimedOut
	return c
}

// Numbering maps offsets to the message ids that clients see.
func (s *Subscription) Numbering() seq.Numbering { return s.topic.Numbering() }
