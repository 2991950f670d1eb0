package consume

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/relay"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// carried is what a client has of partitions whose leadership moves, until the next leader knows that
// the subscription continues there. A leader that transfers the leadership has told it what is in
// flight; one that took over for another reason has not, and keeps none of it. The mutex of the
// subscription guards it, except count.
type carried struct {
	flights map[seq.MessageID]relay.Flight // that the client has
	answers map[seq.MessageID]relay.Answer // that it has given, and no leader has accepted
	claims  map[int]time.Time              // partitions whose leader must be told, and since when
	count   atomic.Int64                   // of flights
	waiting atomic.Int64                   // of answers
}

// collectLocked adds what the client has of sources that have ended.
func (s *Subscription) collectLocked(now time.Time) {
	if !s.ask.followsLeaders() {
		return
	}
	c, set := &s.carried, s.Sources.Load()
	for _, k := range set.local {
		if !k.gone.Load() || k.collected || !k.Moved() {
			continue
		}
		k.collected = true
		c.claim(k.Partition(), now)
		for _, f := range k.Flights(now) {
			id := seq.NewMessageID(k.Partition(), f.Name)
			c.flights[id] = relay.Flight{Expires: now.Add(f.Rest), Until: now.Add(s.maxTimeout() - f.Held), Alone: f.Alone}
		}
	}
	for _, r := range set.Relays {
		rest := r.Collect()
		for _, i := range rest.Partitions {
			c.claim(i, now)
		}
		for id, f := range rest.Flights {
			c.flights[id] = f
		}
		for id, a := range rest.Answers {
			c.answers[id] = a
		}
	}
	for id, a := range c.answers {
		if a.Verb != forward.Touch {
			delete(c.flights, id) // the client no longer has it
		}
	}
	for id, f := range c.flights {
		if !f.Expires.After(now) {
			delete(c.flights, id)
		}
	}
	if c.recount() {
		s.wake()
	}
}

func (c *carried) claim(partition int, now time.Time) {
	if _, there := c.claims[partition]; !there {
		c.claims[partition] = now
	}
}

// recount reports whether the client has fewer messages than before, and so may have room for others.
func (c *carried) recount() (fewer bool) {
	n := int64(len(c.flights))
	c.waiting.Store(int64(len(c.answers)))
	return n < c.count.Swap(n)
}

// keep keeps the client's answer to a message whose partition has no leader that would accept it
// now, and reports whether the client has the message.
func (s *Subscription) keep(a forward.Answer, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.over {
		return false
	}
	s.collectLocked(now)
	c := &s.carried
	f, has := c.flights[a.ID]
	was, answered := c.answers[a.ID]
	switch {
	case answered && was.Verb != forward.Touch:
		return false
	case has && a.Verb == forward.Touch:
		if f.Expires = now.Add(s.ask.MsgTimeout); f.Expires.After(f.Until) {
			f.Expires = f.Until
		}
		c.flights[a.ID] = f
	case has:
		delete(c.flights, a.ID)
	default: // a leader that may continue still has it
		k, _ := s.Sources.Load().of(a.ID)
		if k == nil || !k.Has(a.ID.Offset()) {
			return false
		}
	}
	c.answers[a.ID] = relay.Answer{Answer: a}
	if c.recount() {
		s.wake()
	}
	return true
}

// settle repeats answers that a leader on this node did not accept while it was transferring its leadership, or
// before its lease had begun. Take's goroutine calls it.
func (s *Subscription) settle() {
	if s.carried.waiting.Load() == 0 {
		return
	}
	var again []forward.Answer
	s.mu.Lock()
	for id, a := range s.carried.answers {
		if s.Sources.Load().lives(id.Partition()) {
			again = append(again, a.Answer)
			delete(s.carried.answers, id)
		}
	}
	s.carried.recount() // the flights are the same
	s.mu.Unlock()
	s.repeat(again)
}

// repeat gives answers that the client gave before.
func (s *Subscription) repeat(all []forward.Answer) {
	for _, a := range all {
		if err := s.answer(a); err != nil && a.Verb == forward.Finish {
			s.ask.Client.Unfinished(a.ID, err)
		}
	}
}

// holding returns which messages of partitions the client has from earlier leaders, answered or not.
func (s *Subscription) holding(partitions []int) (ids []seq.MessageID) {
	if s.relayedFor != nil {
		return slices.DeleteFunc(slices.Clone(s.relayedFor.Holding), func(id seq.MessageID) bool { return !slices.Contains(partitions, id.Partition()) })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.collectLocked(time.Now())
	for id := range s.carried.flights {
		if slices.Contains(partitions, id.Partition()) {
			ids = append(ids, id)
		}
	}
	for id := range s.carried.answers {
		if _, too := s.carried.flights[id]; !too && slices.Contains(partitions, id.Partition()) {
			ids = append(ids, id)
		}
	}
	return ids
}

// resumed is what changes for a client because its subscription continues at the next leader.
type resumed struct {
	flights  map[seq.MessageID]relay.Flight // in flight there
	answers  []forward.Answer               // to be given there
	unfished []seq.MessageID                // finished too late: they are delivered again
	fewer    bool                           // the client may have room for other messages
}

// resume ends the carrying of partitions at whose leader the subscription continues. Of the messages
// that the client holds, kept are in flight there.
func (c *carried) resume(partitions []int, holding, kept []seq.MessageID, timeout time.Duration, now time.Time) (x resumed) {
	stays := among(slices.Clone(kept))
	x.flights = map[seq.MessageID]relay.Flight{}
	for _, id := range holding {
		f, has := c.flights[id]
		a, answered := c.answers[id]
		delete(c.flights, id)
		delete(c.answers, id)
		switch {
		case stays(id):
			if !has {
				f = relay.Flight{Expires: now.Add(timeout), Until: now.Add(timeout)}
			}
			x.flights[id] = f
			if answered {
				x.answers = append(x.answers, a.Answer)
			}
		case answered && a.Verb == forward.Finish && !a.Doubtful():
			x.unfished = append(x.unfished, id)
		}
	}
	for _, i := range partitions {
		delete(c.claims, i)
	}
	x.fewer = c.recount()
	return x
}

// resume gives the answers that have waited.
func (s *Subscription) resume(x resumed) {
	s.repeat(x.answers)
	for _, id := range x.unfished {
		s.ask.Client.Unfinished(id, failure.NotInFlight)
	}
	if x.fewer {
		s.wake()
	}
}

// claims returns the partitions whose leader must be told about the subscription, and whether it has messages of
// them. Those that it could not tell for long are given up: the leader has returned the messages.
func (s *Subscription) claims(now time.Time) map[int]bool {
	s.mu.Lock()
	s.collectLocked(now)
	all, late := map[int]bool{}, []int(nil)
	for i, since := range s.carried.claims {
		if all[i] = false; now.Sub(since) >= topic.ReturnAfter {
			late = append(late, i)
			delete(all, i)
		}
	}
	some := func(id seq.MessageID) {
		if _, claimed := all[id.Partition()]; claimed {
			all[id.Partition()] = true
		}
	}
	for id := range s.carried.flights {
		some(id)
	}
	for id := range s.carried.answers {
		some(id)
	}
	s.mu.Unlock()
	if len(late) > 0 {
		s.giveUp(late)
	}
	return all
}

// giveUp forgets what the client has of partitions.
func (s *Subscription) giveUp(partitions []int) {
	ids := s.holding(partitions)
	s.mu.Lock()
	x := s.carried.resume(partitions, ids, nil, 0, time.Now())
	s.mu.Unlock()
	s.resume(x)
}

// claim continues the subscription at the new leaders of partitions of which the client has messages, in addition to
// its other sources. Leaders of partitions of which it has none return what it was sent and has not got.
func (j joiner) claim(ctx context.Context) {
	s := j.s
	t := s.c.o.Meta.Topic(s.ask.Topic)
	if t == nil || t.Incarnation != s.topic.Incarnation {
		return
	}
	some, none := map[meta.NodeID][]int{}, map[meta.NodeID][]int{}
	for i, has := range s.claims(time.Now()) {
		switch leader := t.Partitions[i].Leader; {
		case leader == "":
		case s.Sources.Load().covers(i):
			s.giveUp([]int{i})
		case leader == s.c.o.Self:
			if s.topic.Led(i) != nil {
				s.LedChanged()
			}
		case has:
			some[leader] = append(some[leader], i)
		default:
			none[leader] = append(none[leader], i)
		}
	}
	for leader, partitions := range some {
		if err := j.relayFrom(ctx, leader, partitions, true); err != nil {
			s.c.o.Logger.Debug("cannot continue at the new leader of messages in flight; retrying", "topic", s.ask.Topic, "channel", s.ask.Channel, "node", leader, "error", err)
		}
	}
	for leader, partitions := range none {
		if s.tellReturn(ctx, leader, partitions) == nil {
			s.giveUp(partitions)
		}
	}
}

// tellReturn tells the leader of partitions that the subscription does not continue there.
func (s *Subscription) tellReturn(ctx context.Context, leader meta.NodeID, partitions []int) error {
	m := forward.Return{Topic: s.ask.Topic, Incarnation: s.topic.Incarnation, Channel: s.ask.Channel, Partitions: partitions, Number: s.identity.Number}
	if leader == s.c.o.Self {
		return s.c.returnHere(leader, m)
	}
	_, err := s.c.o.Calls.Call(ctx, leader, forward.KindReturn, [][]byte{m.Append(nil)})
	return err
}

// returnClaims tells the next leaders of partitions whose leadership moves that the subscription, which is closed,
// does not continue.
func (s *Subscription) returnClaims() {
	s.mu.Lock()
	s.collectLocked(time.Now())
	left := slices.Collect(maps.Keys(s.carried.claims))
	clear(s.carried.claims)
	for _, k := range s.Sources.Load().local {
		if k.Moved() && !slices.Contains(left, k.Partition()) {
			left = append(left, k.Partition())
		}
	}
	s.mu.Unlock()
	s.returnTo(left)
}

// returnTo tells the leaders of partitions, once they lead, that the subscription, which is closed, does not continue.
func (s *Subscription) returnTo(left []int) {
	if len(left) == 0 || s.identity.Number == 0 {
		return
	}
	left = slices.Clone(left)
	s.c.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(s.c.life, answerTimeout)
		defer cancel()
		for len(left) > 0 {
			t := s.c.o.Meta.Topic(s.ask.Topic)
			if t == nil || t.Incarnation != s.topic.Incarnation {
				return
			}
			left = slices.DeleteFunc(left, func(i int) bool {
				leader := t.Partitions[i].Leader
				return leader != "" && s.tellReturn(ctx, leader, []int{i}) == nil
			})
			if len(left) > 0 && !beat.Pause(ctx, findAgain) {
				return // the leaders notice it
			}
		}
	})
}

// returnHere returns messages in flight on partitions that this node leads, for a subscription of another node.
func (c *Consumers) returnHere(from meta.NodeID, m forward.Return) error {
	h := c.host.Lookup(m.Topic)
	if h == nil || h.Incarnation != m.Incarnation {
		return failure.TopicNotFound
	}
	var errs []error
	for _, i := range m.Partitions {
		lp := h.Led(i)
		if lp == nil {
			errs = append(errs, fmt.Errorf("%s/%d: %w", m.Topic, i, failure.NotLeading))
			continue
		}
		if ch := lp.Part.Channel(m.Channel); ch != nil {
			errs = append(errs, ch.Return(topic.Identity{Node: string(from), Number: m.Number}))
		}
	}
	return errors.Join(errs...)
}
