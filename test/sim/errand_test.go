package sim

import (
	"context"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/consume"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/stats"
	"github.com/brokerd/brokerd/pkg/topic"
)

// errandLife is how long a client of an errand stays at a node.
const errandLife = 5 * time.Second

// errand is a client with a subscription of another topic than the one that is checked by offset.
// It notices by itself when its node is gone.
type errand struct {
	w                   *world
	topic, channel, tag string
	stop                <-chan struct{}
	crashed             bool // answer sets it: the client ends, and answers nothing more
}

// answers is how a client answers a message that it got.
type answers interface {
	Finish(id seq.MessageID) error
	Requeue(id seq.MessageID, delay time.Duration) error
}

// ClientStats implements consume.Client.
func (e *errand) ClientStats() stats.Client {
	return stats.Client{Consumer: api.Consumer{ClientID: e.topic}}
}

// Unfinished implements consume.Client: the message is delivered again.
func (e *errand) Unfinished(seq.MessageID, error) {}

// Disconnect implements consume.Client.
func (e *errand) Disconnect(error) {}

// run subscribes at a node, calls got for each message, and then calls answer to answer it.
func (e *errand) run(l *life, got func(*topic.Delivery), answer func(s answers, id seq.MessageID, body string)) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	wake := make(chan struct{}, 1)
	s, err := l.broker.Load().Consumers.Subscribe(ctx, consume.Subscribe{
		Topic: e.topic, Channel: e.channel, Partition: host.AnyPartition, Client: e, MsgTimeout: e.w.plan.timeout, Tag: e.tag,
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
	for leave := time.After(errandLife); ; {
		type message struct {
			id   seq.MessageID
			body string
		}
		var all []message
		if _, err := s.Take(time.Now(), 5, func(d *topic.Delivery) error {
			got(d)
			all = append(all, message{d.ID, string(d.Body)})
			return nil
		}); err != nil {
			return
		}
		for _, m := range all {
			if answer(s, m.id, m.body); e.crashed {
				return
			}
		}
		if len(all) > 0 {
			continue
		}
		select {
		case <-wake:
		case <-leave:
			return
		case <-l.over:
			return
		case <-e.stop:
			return
		}
	}
}
