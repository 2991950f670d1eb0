package consume

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/internal/fan"
	"github.com/brokerd/brokerd/internal/signal"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
)

const (
	// adoptAfter is how long a channel may have no consumer on a remote partition before a consumer
	// of this node takes it over.
	adoptAfter = 2 * time.Second
	// adoptInterval is how often such partitions are checked, and adoptCalm how often those that
	// had consumers.
	adoptInterval = time.Second
	adoptCalm     = 3 * time.Second
	// OrphanTimeout is how long a consumer without any source stays connected.
	OrphanTimeout = 10 * time.Second
	// adoptPause is the shortest time between two checks.
	adoptPause = 50 * time.Millisecond
	// answerTimeout bounds one node's answer; adoptAtOnce is how many consumers are placed at a
	// time.
	answerTimeout = 2 * time.Second
	adoptAtOnce   = 32
	// adoptTogether is the number of channels in one question.
	adoptTogether = 512
)

// ErrNoSource disconnects a consumer whose partitions have no reachable leader.
var ErrNoSource = fate.Refuse("no leader of the topic's partitions is reachable")

// askConsumers is the operation by which a node asks for the consumers of
// channels.
const askConsumers forward.Operation[[]consumersAsked, []consumersFound] = "consumers"

// consumersAsked is a channel on a partition that the asked node leads.
type consumersAsked struct {
	Topic       string           `json:"topic"`
	Incarnation meta.Incarnation `json:"incarnation"`
	Channel     string           `json:"channel"`
	Partition   int              `json:"partition"`
}

// consumersFound are its consumers, without those that could have received messages and have not
// for a while.
type consumersFound struct {
	Led     bool `json:"led"`     // the node leads it
	Direct  int  `json:"direct"`  // clients of that node
	Relayed int  `json:"relayed"` // clients of other nodes
}

// adopter serves clients that know only one address: it finds remote partitions on which a channel
// that is consumed here has no consumer, and relays them to a consumer of this node, until clients
// come there.
type adopter struct {
	c    *Consumers
	wake chan struct{} // a subscription lost or found a source; holds one

	mu   sync.Mutex // guards subs
	subs map[*Subscription]struct{}

	known   map[adoptKey]*adoptees      // used by run's goroutine
	orphans map[*Subscription]time.Time // without any source since then; likewise
	// relaying: a subscription has a remote source, or none; likewise.
	relaying bool
	claiming bool // a subscription has claims; likewise
}

type adoptKey struct {
	topic       string
	incarnation meta.Incarnation
	channel     string
}

// adoptees is the state of a channel's remote partitions.
type adoptees struct {
	lonely map[int]time.Time // without a consumer since then, by partition
	next   time.Time         // when to ask again
	subs   []*Subscription   // that consume the channel on this node
}

func newAdopter(c *Consumers) *adopter {
	return &adopter{
		c: c, wake: make(chan struct{}, 1), subs: map[*Subscription]struct{}{},
		known: map[adoptKey]*adoptees{}, orphans: map[*Subscription]time.Time{},
	}
}

// add adds a subscription to all partitions of a topic.
func (a *adopter) add(s *Subscription) {
	a.mu.Lock()
	a.subs[s] = struct{}{}
	a.mu.Unlock()
	a.poke()
}

func (a *adopter) forget(s *Subscription) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.subs, s)
}

func (a *adopter) poke() { signal.Poke(a.wake) }

// run checks until ctx ends, as long as there are subscriptions.
func (a *adopter) run(ctx context.Context) {
	for urgent := false; ; {
		changed := a.c.o.Meta.Changed()
		wait := adoptInterval
		switch {
		case !a.look(ctx, urgent):
			wait = -1
		case a.claiming:
			wait = findAgain
		}
		if !a.relaying {
			changed = nil // nothing depends on it
		}
		if urgent = a.sleep(ctx, wait, changed); ctx.Err() != nil || urgent && !beat.Pause(ctx, adoptPause) {
			return
		}
	}
}

// sleep waits for d, without limit if negative, and reports whether something
// happened.
func (a *adopter) sleep(ctx context.Context, d time.Duration, changed <-chan struct{}) (woken bool) {
	var due <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		due = t.C
	}
	select {
	case <-a.wake:
		return true
	case <-changed:
		return true
	case <-due:
	case <-ctx.Done():
	}
	return false
}

// look asks the other leaders, and acts on the answers. It reports whether there is anything to
// check again.
func (a *adopter) look(ctx context.Context, urgent bool) bool {
	a.gather()
	a.place(ctx)
	now := time.Now()
	questions := map[meta.NodeID][]consumersAsked{}
	for key, k := range a.known {
		if urgent || !now.Before(k.next) {
			k.next = now.Add(adoptInterval)
			a.questions(key, k, questions)
		}
	}
	var mu sync.Mutex // guards found
	found := map[consumersAsked]consumersFound{}
	var asking sync.WaitGroup
	for node, all := range questions {
		asking.Go(func() {
			for some := range slices.Chunk(all, adoptTogether) {
				answers := a.ask(ctx, node, some)
				mu.Lock()
				maps.Copy(found, answers)
				mu.Unlock()
			}
		})
	}
	asking.Wait()
	for key, k := range a.known {
		a.act(ctx, key, k, found)
	}
	return len(a.known) > 0
}

// gather sorts the subscriptions by channel.
func (a *adopter) gather() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, k := range a.known {
		k.subs = k.subs[:0]
	}
	for s := range a.subs {
		if s.stopped.Load() {
			continue
		}
		key := adoptKey{s.ask.Topic, s.topic.Incarnation, s.ask.Channel}
		k := a.known[key]
		if k == nil {
			k = &adoptees{lonely: map[int]time.Time{}}
			a.known[key] = k
		}
		k.subs = append(k.subs, s)
	}
	maps.DeleteFunc(a.known, func(_ adoptKey, k *adoptees) bool { return len(k.subs) == 0 })
}

// place gives subscriptions without a source the current leaders as sources. It disconnects those
// for which this fails too long.
func (a *adopter) place(ctx context.Context) {
	was := a.orphans
	a.orphans, a.relaying, a.claiming = map[*Subscription]time.Time{}, false, false
	var orphans, claimants []*Subscription
	began := time.Now()
	for _, k := range a.known {
		for _, s := range k.subs {
			t := a.c.o.Meta.Topic(s.ask.Topic)
			s.Sources.Load().endStrays(t, s.topic.Incarnation, s.ask.isOrdered(t))
			a.relaying = a.relaying || len(s.Sources.Load().Relays) > 0
			switch {
			case s.Sources.Load().Live() == 0:
				orphans = append(orphans, s)
			case len(s.claims(began)) > 0:
				claimants = append(claimants, s)
			}
		}
	}
	if len(orphans)+len(claimants) == 0 {
		return
	}
	a.relaying = true
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	fan.Out(claimants, adoptAtOnce, func(s *Subscription) { joiner{s}.claim(ctx) })
	fan.Out(orphans, adoptAtOnce, func(s *Subscription) {
		if len(s.topic.AllLed()) > 0 {
			s.LedChanged()
		} else if err := (joiner{s}).relayAll(ctx); err != nil && !movedOn(err) {
			s.ask.Client.Disconnect(err)
		}
	})
	now := time.Now()
	a.claiming = slices.ContainsFunc(slices.Concat(orphans, claimants), func(s *Subscription) bool { return len(s.claims(now)) > 0 })
	for _, s := range orphans {
		since, ok := was[s]
		switch {
		case s.Sources.Load().Live() > 0:
		case !ok:
			a.orphans[s] = now
		case now.Sub(since) < OrphanTimeout:
			a.orphans[s] = since
		default:
			s.ask.Client.Disconnect(ErrNoSource)
		}
	}
}

// questions adds the questions about a channel, by leader: remote partitions that are not consumed
// from this node, or only because they had no other consumer.
func (a *adopter) questions(key adoptKey, k *adoptees, out map[meta.NodeID][]consumersAsked) {
	t := a.c.o.Meta.Topic(key.topic)
	if t == nil || t.Incarnation != key.incarnation {
		return
	}
	for i := range t.Partitions {
		leader := t.Partitions[i].Leader
		if leader == "" || leader == a.c.o.Self {
			delete(k.lonely, i)
			continue
		}
		if covered, extra := k.covers(i); !covered || extra {
			out[leader] = append(out[leader], consumersAsked{key.topic, key.incarnation, key.channel, i})
		}
	}
}

// covers reports whether a subscription takes from a partition, and whether it does so only as long
// as there is no other consumer. A subscription whose client does not consume covers nothing.
func (k *adoptees) covers(partition int) (covered, extra bool) {
	now := time.Now()
	for _, s := range k.subs {
		set := s.Sources.Load()
		if set.covers(partition) && s.consumes(now) {
			covered = true
		}
		for _, r := range set.Relays {
			extra = extra || r.Extra && r.Serves(partition) && !r.Gone()
		}
	}
	return covered, extra
}

// ask asks a node for the consumers of channels that it leads. Unanswered channels are missing from
// the result.
func (a *adopter) ask(ctx context.Context, node meta.NodeID, all []consumersAsked) map[consumersAsked]consumersFound {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	answers, err := askConsumers.Ask(ctx, a.c.o.Calls, node, all)
	if err != nil || len(answers) != len(all) {
		return nil
	}
	found := make(map[consumersAsked]consumersFound, len(all))
	for i, q := range all {
		found[q] = answers[i]
	}
	return found
}

// act adopts partitions that have been lonely long enough, at once if this node leads none of the
// topic, and releases those that have consumers now.
func (a *adopter) act(ctx context.Context, key adoptKey, k *adoptees, found map[consumersAsked]consumersFound) {
	t := a.c.o.Meta.Topic(key.topic)
	if t == nil {
		return
	}
	now := time.Now()
	wait := adoptAfter
	if !slices.ContainsFunc(k.subs, func(s *Subscription) bool { return len(s.Sources.Load().local) > 0 }) {
		wait = 0
	}
	adopt := map[meta.NodeID][]int{}
	for i := range t.Partitions {
		f, asked := found[consumersAsked{key.topic, key.incarnation, key.channel, i}]
		covered, _ := k.covers(i)
		switch {
		case !asked || !f.Led:
		case f.Direct > 0 && covered:
			k.retire(i)
		case covered:
		case f.Direct+f.Relayed > 0:
			delete(k.lonely, i)
			k.next = now.Add(adoptCalm)
		default:
			if k.lonely[i].IsZero() {
				k.lonely[i] = now
			}
			if now.Sub(k.lonely[i]) >= wait {
				adopt[t.Partitions[i].Leader] = append(adopt[t.Partitions[i].Leader], i)
			}
		}
	}
	for leader, partitions := range adopt {
		a.adopt(ctx, k, leader, partitions)
	}
	if len(k.lonely) > 0 {
		k.next = now
	}
	k.sweep()
}

// adopt adds remote partitions to the subscription with the fewest sources among those whose
// clients consume.
func (a *adopter) adopt(ctx context.Context, k *adoptees, leader meta.NodeID, partitions []int) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	now := time.Now()
	able := slices.DeleteFunc(slices.Clone(k.subs), func(s *Subscription) bool { return !s.consumes(now) })
	if len(able) == 0 {
		return
	}
	s := slices.MinFunc(able, func(x, y *Subscription) int { return cmp.Compare(x.Sources.Load().Live(), y.Sources.Load().Live()) })
	if err := (joiner{s}).relayFrom(ctx, leader, partitions, true); err != nil {
		a.c.o.Logger.Debug("cannot relay a partition that has no consumers; retrying", "topic", s.ask.Topic, "channel", s.ask.Channel, "node", leader, "error", err)
		return
	}
	for _, i := range partitions {
		delete(k.lonely, i)
	}
}

// retire ends the relays that took from a partition for lack of other consumers, as soon as the
// client has answered their messages.
func (k *adoptees) retire(partition int) {
	for _, s := range k.subs {
		for _, r := range s.Sources.Load().Relays {
			if r.Extra && r.Serves(partition) {
				r.Retire()
			}
		}
		s.allot()
	}
}

// sweep ends retired relays.
func (k *adoptees) sweep() {
	for _, s := range k.subs {
		for _, r := range s.Sources.Load().Relays {
			if r.Retired() {
				r.Close(true)
				s.LedChanged() // release it
			}
		}
	}
}

// consumers returns the consumers of channels on partitions that this node leads.
func (a *adopter) consumers(_ context.Context, all []consumersAsked) ([]consumersFound, error) {
	answers := make([]consumersFound, len(all))
	for i, q := range all {
		answers[i] = a.consumersOf(q)
	}
	return answers, nil
}

func (a *adopter) consumersOf(q consumersAsked) (f consumersFound) {
	h := a.c.host.Lookup(q.Topic)
	if h == nil || h.Incarnation != q.Incarnation {
		return f
	}
	lp := h.Led(q.Partition)
	if lp == nil {
		return f
	}
	f.Led = true
	c := lp.Part.Channel(q.Channel)
	if c == nil {
		return f
	}
	now := time.Now()
	for _, k := range c.Consumers() {
		sub := k.Owner().(*Subscription)
		switch fd, relayed := sub.ask.Client.(*relaySource); {
		case relayed && fd.consumes(now):
			f.Relayed++
		case !relayed && sub.consumes(now):
			f.Direct++
		}
	}
	return f
}
