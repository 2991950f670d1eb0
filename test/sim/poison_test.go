package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/deadletter"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// poison is a topic whose messages no consumer finishes: after its last attempt each of them must
// be a dead letter, whatever fails.
type poison struct {
	w *world

	mu       sync.Mutex // guards what follows
	acked    []string
	first    map[string]seq.Offset // where the acknowledged ones were stored
	attempts map[string]uint16     // the highest number that a consumer received, by message
	times    map[string]int        // how often it was delivered
	seen     map[string]seq.Offset // where from to the other channel
	back     map[string]seq.Offset // where to it was brought back

	finishes atomic.Bool // the dead letters are brought back, and consumers finish them
	failed   atomic.Bool // a redrive has failed: the next one may append up to a batch of letters again
}

const (
	poisonTopic    = "poison"
	poisonAttempts = 3
	poisonEvery    = time.Second
	poisonMortal   = "-mortal" // ends the names of messages that expire
	poisonWitness  = "d"       // a channel that finishes the same messages
	poisonCrash    = "e"       // a channel whose clients crash at some of the same messages, and finish the others
	poisonDeadly   = 4         // one in so many is one of those
	poisonShared   = 15        // shared failures of a message, at most
	poisonLetters  = poisonTopic + ".c.dlq"
	poisonCrashed  = poisonTopic + "." + poisonCrash + ".dlq"
)

// newPoison creates the topic, or returns nil if that was not possible.
func (w *world) newPoison() *poison {
	p := &poison{w: w, first: map[string]seq.Offset{}, attempts: map[string]uint16{}, times: map[string]int{}, seen: map[string]seq.Offset{}, back: map[string]seq.Offset{}}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	b := w.machines[0].running().broker.Load()
	_, err := b.Directory.CreateTopic(ctx, poisonTopic, meta.TopicConfig{Replicas: 3, MinISR: 2, Sync: w.plan.sync})
	if err == nil {
		err = b.Contents.Policies().CreateChannel(ctx, meta.CreateChannel{
			Topic: poisonTopic, Channel: "c",
			Policy: policy.Policy{MaxAttempts: poisonAttempts, OnExpired: policy.DeadLetter, Backoff: policy.Backoff{Min: policy.MinBackoff, Max: time.Second}},
		})
	}
	if err == nil {
		err = b.Directory.EnsureChannel(ctx, meta.CreateChannel{Topic: poisonTopic, Channel: poisonWitness})
	}
	if err == nil {
		err = b.Contents.Policies().CreateChannel(ctx, meta.CreateChannel{
			Topic: poisonTopic, Channel: poisonCrash, Policy: policy.Policy{MaxAttempts: 2 * poisonAttempts}, // a FIN may be lost, and the message time out
		})
	}
	if err == nil && w.plan.repeats {
		_, err = b.Directory.CreateTopic(ctx, poisonLetters, meta.TopicConfig{Replicas: 3, MinISR: 2, Sync: w.plan.sync, DedupWindow: meta.MaxDedupWindow})
		if err == nil {
			err = b.Directory.EnsureChannel(ctx, meta.CreateChannel{Topic: poisonLetters, Channel: deadletter.Channel})
		}
	}
	if err != nil {
		w.wrong("create the topic of poisoned messages: %v", err)
	}
	return p
}

// publish publishes messages at any node.
func (p *poison) publish(rnd *rand.Rand, stop <-chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(rnd.Int64N(int64(poisonEvery)))):
		}
		l := p.w.machines[rnd.IntN(len(p.w.machines))].running()
		if l == nil {
			continue
		}
		m := topic.Message{Body: fmt.Appendf(nil, "poison%d", n)}
		if rnd.IntN(3) == 0 { // it becomes a dead letter when it expires, unless it has had its attempts before
			m.TTL = time.Duration(1 + rnd.Int64N(int64(2*time.Second)))
			m.Body = append(m.Body, poisonMortal...)
		}
		name := string(m.Body)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		l.broker.Load().Router.Publish(ctx, publish.Request{
			Topic: poisonTopic, Partition: host.AnyPartition, Messages: []topic.Message{m},
			Done: func(r topic.Receipt) {
				l.mu.RLock()
				defer l.mu.RUnlock()
				if !l.dead && r.Err == nil {
					p.mu.Lock()
					defer p.mu.Unlock()
					p.acked = append(p.acked, name)
					p.first[name] = r.First
				}
			},
		})
		cancel()
	}
}

// consume requeues what it gets, at any node. Once dead letters are brought back, it finishes them.
func (p *poison) consume(rnd *rand.Rand, stop <-chan struct{}) {
	p.read("c", rnd, stop, func(s answers, id seq.MessageID, _ string) {
		switch {
		case p.finishes.Load():
			_ = s.Finish(id)
		case rnd.IntN(5) > 0: // else the message times out
			_ = s.Requeue(id, 0)
		}
	})
}

// deadly reports whether a message ends the clients of the third channel.
func deadly(name string) bool {
	n, err := strconv.Atoi(strings.TrimPrefix(name, "poison"))
	return err == nil && n%poisonDeadly == 0
}

// crash reads the third channel. Its clients crash at some messages, with up to four others in flight, and finish the
// others.
func (p *poison) crash(rnd *rand.Rand, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(rnd.Int64N(int64(50 * time.Millisecond)))):
		}
		if l := p.w.machines[rnd.IntN(len(p.w.machines))].running(); l != nil {
			e := errand{w: p.w, topic: poisonTopic, channel: poisonCrash, stop: stop}
			e.run(l, func(*topic.Delivery) {}, func(s answers, id seq.MessageID, name string) {
				if e.crashed = deadly(name); !e.crashed {
					_ = s.Finish(id)
				}
			})
		}
	}
}

// survivors returns what is wrong with the third channel: a message that ends its clients must become a dead letter, and
// no other may.
func (p *poison) survivors() string {
	l := p.w.machines[0].running()
	if l == nil {
		return "no node can be asked"
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.ContainsFunc(p.acked, deadly) {
		return ""
	}
	letters, err := l.broker.Load().Contents.Peek(ctx, operate.Peek{Topic: poisonCrashed, Channel: deadletter.Channel, Partition: host.AnyPartition, Max: 10_000})
	if err != nil {
		return err.Error()
	}
	found := map[string]bool{}
	for _, m := range letters {
		if found[string(m.Body)] = true; !deadly(string(m.Body)) {
			p.w.wrong("%s is a dead letter, though no client failed because of it", m.Body)
		}
	}
	for _, name := range p.acked {
		if deadly(name) && !found[name] {
			return name + " is no dead letter, though it ends every client"
		}
	}
	return ""
}

// witness reads the other channel. It finishes everything, and no dead letter may be brought back
// to it.
func (p *poison) witness(rnd *rand.Rand, stop <-chan struct{}) {
	p.read(poisonWitness, rnd, stop, func(s answers, id seq.MessageID, _ string) { _ = s.Finish(id) })
}

func (p *poison) read(channel string, rnd *rand.Rand, stop <-chan struct{}, answer func(s answers, id seq.MessageID, body string)) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(rnd.Int64N(int64(50 * time.Millisecond)))):
		}
		if l := p.w.machines[rnd.IntN(len(p.w.machines))].running(); l != nil {
			e := errand{w: p.w, topic: poisonTopic, channel: channel, stop: stop}
			e.run(l, func(d *topic.Delivery) { p.delivered(l, channel, d) }, answer)
		}
	}
}

// delivered notes a delivery if the process is still alive.
func (p *poison) delivered(l *life, channel string, d *topic.Delivery) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.dead {
		return
	}
	name, at := string(d.Body), d.ID.Offset()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case channel == poisonWitness:
		if before, ok := p.seen[name]; ok && before != at {
			p.w.wrong("%s was delivered to the other channel from %d, and from %d", name, before, at)
		}
		p.seen[name] = at
	case p.finishes.Load() && p.isFirst(name, at): // positions were damaged, and the channel goes through its log again
	case p.finishes.Load():
		if before, ok := p.back[name]; ok && before != at && p.w.plan.repeats && !p.failed.Load() {
			p.w.wrong("%s was brought back from the dead letters to %d, and to %d", name, before, at)
		}
		p.back[name] = at
	case d.Attempts > poisonAttempts+poisonShared:
		p.w.wrong("%s was delivered for the %dth time, though %d are allowed", name, d.Attempts, poisonAttempts+poisonShared)
	default:
		p.attempts[name] = max(p.attempts[name], d.Attempts)
		p.times[name]++
	}
}

// isFirst reports whether a message stands where it was published, and not where it was brought back to.
func (p *poison) isFirst(name string, at seq.Offset) bool {
	first, ok := p.first[name]
	return ok && first == at
}

// missing names a message that was acknowledged and is no dead letter, after it has had all
// its attempts.
func (p *poison) missing() string {
	letters, err := p.letters()
	if err != nil {
		return err.Error()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range p.acked {
		if letters[name] == 0 {
			return fmt.Sprintf("%s is no dead letter, after %d attempts as far as is known", name, p.attempts[name])
		}
	}
	return ""
}

// letters returns how many dead letters there are of each message: at most one, if the window of
// dedup ids is longer than the clocks differ.
func (p *poison) letters() (map[string]int, error) {
	found := map[string]int{}
	l := p.w.machines[0].running()
	if l == nil {
		return nil, errors.New("no node can be asked")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	p.mu.Lock()
	none := len(p.acked) == 0
	p.mu.Unlock()
	if none {
		return found, nil
	}
	letters, err := l.broker.Load().Contents.Peek(ctx, operate.Peek{Topic: poisonLetters, Channel: deadletter.Channel, Partition: host.AnyPartition, Max: 10_000})
	for _, m := range letters {
		o, err := deadletter.ReadOrigin(m.Header)
		if err != nil || o.Topic != poisonTopic || o.Channel != "c" || o.Attempts > poisonAttempts+poisonShared ||
			o.Attempts < poisonAttempts && (o.Reason != deadletter.ReasonExpired || !bytes.HasSuffix(m.Body, []byte(poisonMortal))) {
			p.w.wrong("the dead letter %s says %+v, %v", m.Body, o, err)
		}
		if found[string(m.Body)]++; found[string(m.Body)] > 1 && p.w.plan.repeats {
			p.w.wrong("%s is a dead letter twice", m.Body)
		}
	}
	return found, err
}

// redrive brings the dead letters back while nothing fails: each comes to its channel once, and to
// no other channel. Before that, no message was delivered more often than its attempts and the
// elections allow, if all nodes could store the attempts.
func (p *poison) redrive() {
	p.w.eachTopic(poisonTopic, func(t *meta.Topic) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for name, times := range p.times {
			if most := poisonAttempts + poisonShared + int(t.Partitions[0].Epoch); times > most && p.w.lost.Load() == 0 { //nolint:gosec // a small number
				p.w.wrong("%s was delivered %d times, after %d elections", name, times, t.Partitions[0].Epoch)
			}
		}
	})
	p.finishes.Store(true)
	p.w.await(toDrain, "all dead letters are brought back", func() string {
		left, err := p.letters()
		if err == nil && len(left) > 0 {
			ctx, cancel := context.WithTimeout(context.Background(), toCreate)
			defer cancel()
			_, err = p.w.machines[0].running().broker.Load().Contents.Policies().RedriveOrPurge(ctx, operate.DeadLetterAction{Topic: poisonTopic, Channel: "c", Max: 100})
			p.failed.Store(p.failed.Load() || err != nil)
		}
		if err != nil {
			return err.Error()
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, name := range p.acked {
			_, back := p.back[name]
			if _, seen := p.seen[name]; !back || !seen && !strings.HasSuffix(name, poisonMortal) || left[name] > 0 {
				return fmt.Sprintf("%s came back: %v, to the other channel: %v, and is %d dead letters", name, back, seen, left[name])
			}
		}
		return ""
	})
}
