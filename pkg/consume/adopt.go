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
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
)

const (
	// adoptAfter is how long a channel may be without a consumer on a partition
	// elsewhere before a consumer of this node takes care of it.
	adoptAfter = 2 * time.Second
	// adoptInterval is how often such partitions are looked at, and adoptCalm how
	// often those that had consumers.
	adoptInterval = time.Second
	adoptCalm     = 3 * time.Second
	// OrphanPatience is how long a consumer without any source stays connected.
	OrphanPatience = 10 * time.Second
	// adoptPause lies between two looks, whatever happens.
	adoptPause = 50 * time.Millisecond
	// answerTimeout is how long one node may take to answer, and adoptAtOnce how many
	// consumers are placed at a time.
	answerTimeout = 2 * time.Second
	adoptAtOnce   = 32
	// adoptTogether is how many channels one question is about.
	adoptTogether = 512
)

// ErrNoSource disconnects a consumer whose partitions have no reachable leader.
var ErrNoSource = fate.Refuse("no leader of the topic's partitions is reachable")

// askConsumers is the operation by which a node asks who consumes channels.
const askConsumers forward.Operation[[]consumersAsked, []consumersFound] = "consumers"

// consumersAsked is a channel on a partition that the node that is asked leads.
type consumersAsked struct {
	Topic       string           `json:"topic"`
	Incarnation meta.Incarnation `json:"incarnation"`
	Channel     string           `json:"channel"`
	Partition   int              `json:"partition"`
}

// consumersFound says who consumes it. Those are left out that have not taken anything
// for a while though they could.
type consumersFound struct {
	Led     bool `json:"led"`     // the node does lead it
	Direct  int  `json:"direct"`  // clients of that node
	Relayed int  `json:"relayed"` // of others
}

// adopter sees to it that clients which know one address only get what they are
// for: it looks for partitions elsewhere on which a channel that is consumed here
// has no consumer, and has them relayed to a consumer of this node, until
// clients come there.
type adopter struct {
	c    *Consumers
	stir chan struct{} // someone lost or found a source; holds one

	mu   sync.Mutex // guards subs
	subs map[*Subscription]struct{}

	known   map[adoptKey]*adoptees      // of run's goroutine
	orphans map[*Subscription]time.Time // that take from nowhere since then; likewise
	// relaying: someone takes from elsewhere, or from nowhere; likewise
	relaying bool
}

type adoptKey struct {
	topic       string
	incarnation meta.Incarnation
	channel     string
}

// adoptees is what is known of a channel's partitions elsewhere.
type adoptees struct {
	lonely map[int]time.Time // without a consumer since then, by partition
	next   time.Time         // when to ask again
	subs   []*Subscription   // that consume the channel here
}

func newAdopter(c *Consumers) *adopter {
	return &adopter{
		c: c, stir: make(chan struct{}, 1), subs: map[*Subscription]struct{}{},
		known: map[adoptKey]*adoptees{}, orphans: map[*Subscription]time.Time{},
	}
}

// add is told of a subscription to all partitions of a topic.
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

func (a *adopter) poke() {
	select {
	case a.stir <- struct{}{}:
	default:
	}
}

// run looks until ctx ends, as long as there are subscriptions.
func (a *adopter) run(ctx context.Context) {
	for urgent := false; ; {
		changed := a.c.o.Meta.Changed()
		wait := adoptInterval
		if !a.look(ctx, urgent) {
			wait = -1
		}
		if !a.relaying {
			changed = nil // nobody depends on it
		}
		if urgent = a.sleep(ctx, wait, changed); ctx.Err() != nil || urgent && !beat.Pause(ctx, adoptPause) {
			return
		}
	}
}

// sleep waits; a negative time is for ever. It returns whether something
// happened.
func (a *adopter) sleep(ctx context.Context, d time.Duration, changed <-chan struct{}) (stirred bool) {
	var due <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		due = t.C
	}
	select {
	case <-a.stir:
		return true
	case <-changed:
		return true
	case <-due:
	case <-ctx.Done():
	}
	return false
}

// look asks the other leaders what is to be asked, and acts on it. It returns
// whether there is anything to look after.
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

// place has those that take from nowhere take from whoever leads now. Who cannot
// for too long is told to go.
func (a *adopter) place(ctx context.Context) {
	was := a.orphans
	a.orphans, a.relaying = map[*Subscription]time.Time{}, false
	var orphans []*Subscription
	for _, k := range a.known {
		for _, s := range k.subs {
			t := a.c.o.Meta.Topic(s.ask.Topic)
			s.Sources.Load().endStrays(t, s.topic.Incarnation, s.ask.isOrdered(t))
			a.relaying = a.relaying || len(s.Sources.Load().Relays) > 0
			if s.Sources.Load().Live() == 0 {
				orphans = append(orphans, s)
			}
		}
	}
	if len(orphans) == 0 {
		return
	}
	a.relaying = true
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	fan.Out(orphans, adoptAtOnce, func(s *Subscription) {
		if len(s.topic.AllLed()) > 0 {
			s.LedChanged()
		} else if err := (joiner{s}).relayAll(ctx); err != nil && !movedOn(err) {
			s.ask.Client.Disconnect(err)
		}
	})
	now := time.Now()
	for _, s := range orphans {
		since, ok := was[s]
		switch {
		case s.Sources.Load().Live() > 0:
		case !ok:
			a.orphans[s] = now
		case now.Sub(since) < OrphanPatience:
			a.orphans[s] = since
		default:
			s.ask.Client.Disconnect(ErrNoSource)
		}
	}
}

// questions adds what is to be asked about a channel, by leader: the partitions
// elsewhere that are not consumed from here, or only for lack of others.
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

// covers reports whether a subscription takes from a partition, and whether it does
// so only as long as nobody else is there. One whose client does not consume takes
// nothing.
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

// ask asks a node who consumes channels that it leads. What it does not answer
// is missing.
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

// act adopts what is lonely for long enough, at once where this node leads none
// of the topic, and releases what others have come for.
func (a *adopter) act(ctx context.Context, key adoptKey, k *adoptees, found map[consumersAsked]consumersFound) {
	t := a.c.o.Meta.Topic(key.topic)
	if t == nil {
		return
	}
	now := time.Now()
	patience := adoptAfter
	if !slices.ContainsFunc(k.subs, func(s *Subscription) bool { return len(s.Sources.Load().local) > 0 }) {
		patience = 0
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
			if now.Sub(k.lonely[i]) >= patience {
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

// adopt has the subscription with the fewest sources, of those whose clients consume,
// take from partitions elsewhere, too.
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

// retire has the relays end that took from a partition for lack of others, as
// soon as what the client has of them is answered.
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

// sweep ends relays that are to end.
func (k *adoptees) sweep() {
	for _, s := range k.subs {
		for _, r := range s.Sources.Load().Relays {
			if r.Retired() {
				r.Close()
				s.LedChanged() // it is to be release
			}
		}
	}
}

// consumers answers who consumes channels on partitions that this node leads.
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
