package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/consume"
	"github.com/brokerd/brokerd/pkg/deadletter"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/stats"
	"github.com/brokerd/brokerd/pkg/topic"
)

// poison is a topic whose messages nobody finishes: after so many attempts each of them has
// to be a dead letter, whatever fails.
type poison struct {
	w *world

	mu       sync.Mutex // guards what follows
	acked    []string
	attempts map[string]uint16 // the most that a consumer was told, by message
}

const (
	poisonTopic    = "poison"
	poisonAttempts = 3
	poisonEvery    = time.Second
)

// newPoison creates the topic; nil: that was not possible just now.
func (w *world) newPoison() *poison {
	p := &poison{w: w, attempts: map[string]uint16{}}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	b := w.machines[0].running().broker.Load()
	_, err := b.Directory.CreateTopic(ctx, poisonTopic, meta.TopicConfig{Replicas: 3, MinISR: 2, Sync: w.plan.sync})
	if err == nil {
		err = b.Contents.Policies().CreateChannel(ctx, meta.CreateChannel{
			Topic: poisonTopic, Channel: "c",
			Policy: policy.Policy{MaxAttempts: poisonAttempts, Backoff: policy.Backoff{Min: policy.MinBackoff, Max: time.Second}},
		})
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
		name := fmt.Sprintf("poison%d", n)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		l.broker.Load().Router.Publish(ctx, publish.Request{
			Topic: poisonTopic, Partition: host.AnyPartition, Messages: []topic.Message{{Body: []byte(name)}},
			Done: func(r topic.Receipt) {
				l.mu.RLock()
				defer l.mu.RUnlock()
				if !l.dead && r.Err == nil {
					p.mu.Lock()
					defer p.mu.Unlock()
					p.acked = append(p.acked, name)
				}
			},
		})
		cancel()
	}
}

// ClientStats implements consume.Client.
func (p *poison) ClientStats() stats.Client { return stats.Client{ClientID: "poison"} }

// Unfinished implements consume.Client: nothing is finished.
func (p *poison) Unfinished(seq.MessageID, error) {}

// Disconnect implements consume.Client: the session finds out by itself.
func (p *poison) Disconnect(error) {}

// consume requeues what it gets, at any node.
func (p *poison) consume(rnd *rand.Rand, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(rnd.Int64N(int64(50 * time.Millisecond)))):
		}
		if l := p.w.machines[rnd.IntN(len(p.w.machines))].running(); l != nil {
			p.session(l, rnd, stop)
		}
	}
}

func (p *poison) session(l *life, rnd *rand.Rand, stop <-chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	wake := make(chan struct{}, 1)
	s, err := l.broker.Load().Consumers.Subscribe(ctx, consume.Subscribe{
		Topic: poisonTopic, Channel: "c", Partition: host.AnyPartition, Client: p, MsgTimeout: p.w.plan.timeout,
		Wake: func() {
			select {
			case wake <- struct{}{}:
			default:
			}
		},
	})
	if err != nil {
		return
	}
	defer s.Close()
	s.SetReady(5)
	for leave := time.After(5 * time.Second); ; {
		var ids []seq.MessageID
		if _, err := s.Take(time.Now(), 5, func(d *topic.Delivery) error {
			p.delivered(l, d)
			ids = append(ids, d.ID)
			return nil
		}); err != nil {
			return
		}
		for _, id := range ids {
			if rnd.IntN(5) > 0 { // else it times out
				_ = s.Requeue(id, 0)
			}
		}
		if len(ids) > 0 {
			continue
		}
		select {
		case <-wake:
		case <-leave:
			return
		case <-l.over:
			return
		case <-stop:
			return
		}
	}
}

// delivered notes a delivery, if the process still speaks.
func (p *poison) delivered(l *life, d *topic.Delivery) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.dead {
		return
	}
	if d.Attempts > poisonAttempts {
		p.w.wrong("%s was delivered for the %dth time, though %d are allowed", d.Body, d.Attempts, poisonAttempts)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attempts[string(d.Body)] = max(p.attempts[string(d.Body)], d.Attempts)
}

// missing names a message that was acknowledged and is no dead letter, after it has had all
// its attempts.
func (p *poison) missing() string {
	l := p.w.machines[0].running()
	if l == nil {
		return "nobody can be asked"
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	p.mu.Lock()
	none := len(p.acked) == 0
	p.mu.Unlock()
	if none {
		return ""
	}
	letters, err := l.broker.Load().Contents.Peek(ctx, operate.Peek{Topic: poisonTopic + ".c.dlq", Channel: deadletter.Channel, Partition: host.AnyPartition, Max: 10_000})
	if err != nil {
		return err.Error()
	}
	found := map[string]bool{}
	for _, m := range letters {
		o, err := deadletter.ReadOrigin(m.Header)
		if err != nil || o.Topic != poisonTopic || o.Channel != "c" || o.Attempts != poisonAttempts {
			p.w.wrong("the dead letter %s says %+v, %v", m.Body, o, err)
		}
		found[string(m.Body)] = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range p.acked {
		if !found[name] {
			return fmt.Sprintf("%s is no dead letter, after %d attempts as far as is known", name, p.attempts[name])
		}
	}
	return ""
}
