// Package amqpq loads RabbitMQ quorum queues through amqp091-go.
package amqpq

import (
	"context"
	"errors"
	"fmt"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/brokerd/brokerd/tools/loadgen/internal/broker"
)

// Config is the address of the broker.
type Config struct {
	Addr     string
	Prefetch int
	Replicas int // initial group size of the quorum queues
	InFlight int // the most messages unconfirmed to a publisher
}

// Driver is the broker.Driver for RabbitMQ.
type Driver struct {
	c  Config
	mu sync.Mutex
	cn *amqp.Connection
	ch *amqp.Channel
}

// New returns the driver for c.
func New(c Config) (*Driver, error) {
	d := &Driver{c: c}
	var err error
	if d.cn, err = amqp.Dial("amqp://guest:guest@" + c.Addr + "/"); err != nil {
		return nil, err
	}
	d.ch, err = d.cn.Channel()
	return d, err
}

func (d *Driver) args() amqp.Table {
	return amqp.Table{"x-queue-type": "quorum", "x-quorum-initial-group-size": d.c.Replicas}
}

// Create implements broker.Driver. A queue is its own consumer group.
func (d *Driver) Create(_ context.Context, topic string, _ bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := d.ch.QueueDeclare(topic, true, false, false, false, d.args())
	return err
}

// Delete implements broker.Driver.
func (d *Driver) Delete(_ context.Context, topic string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := d.ch.QueueDelete(topic, false, false, false)
	return err
}

// Backlog implements broker.Driver. It does not count messages that a connected consumer has not
// acknowledged; once the consumer is gone, they are ready.
func (d *Driver) Backlog(_ context.Context, topic string) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q, err := d.ch.QueueDeclarePassive(topic, true, false, false, false, d.args())
	return int64(q.Messages), err
}

// Close implements broker.Driver.
func (d *Driver) Close() error { return d.cn.Close() }

type publisher struct {
	cn    *amqp.Connection
	ch    *amqp.Channel
	topic string
	conf  chan amqp.Confirmation

	mu   sync.Mutex
	q    []pending
	cum  uint64
	done chan struct{}
}

type pending struct {
	last  uint64
	acked func(error)
}

// Publisher implements broker.Driver.
func (d *Driver) Publisher(_ context.Context, topic string) (broker.Publisher, error) {
	cn, err := amqp.Dial("amqp://guest:guest@" + d.c.Addr + "/")
	if err != nil {
		return nil, err
	}
	ch, err := cn.Channel()
	if err != nil {
		return nil, err
	}
	p := &publisher{cn: cn, ch: ch, topic: topic}
	p.conf = ch.NotifyPublish(make(chan amqp.Confirmation, d.c.InFlight+1024))
	return p, ch.Confirm(false)
}

func (p *publisher) one(body []byte) error {
	return p.ch.PublishWithContext(context.Background(), "", p.topic, false, false,
		amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body})
}

// Publish implements broker.Publisher.
func (p *publisher) Publish(body []byte) error {
	if err := p.one(body); err != nil {
		return err
	}
	c, ok := <-p.conf
	if !ok || !c.Ack {
		return fmt.Errorf("not confirmed: %+v", c)
	}
	return nil
}

// Send implements broker.Publisher.
func (p *publisher) Send(bodies [][]byte, acked func(error)) error {
	if p.done == nil {
		p.done = make(chan struct{})
		go p.confirms()
	}
	p.mu.Lock()
	p.cum += uint64(len(bodies))
	p.q = append(p.q, pending{p.cum, acked})
	p.mu.Unlock()
	for _, b := range bodies {
		if err := p.one(b); err != nil {
			return err
		}
	}
	return nil
}

// confirms relies on the library to deliver confirmations in order.
func (p *publisher) confirms() {
	defer close(p.done)
	fail := func(err error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, e := range p.q {
			e.acked(err)
		}
		p.q = nil
	}
	for c := range p.conf {
		if !c.Ack {
			fail(errors.New("the broker refused a message"))
			return
		}
		p.mu.Lock()
		if len(p.q) > 0 && p.q[0].last <= c.DeliveryTag {
			p.q[0].acked(nil)
			p.q = p.q[1:]
		}
		p.mu.Unlock()
	}
	fail(errors.New("closed"))
}

// Close implements broker.Publisher.
func (p *publisher) Close() error {
	err := p.cn.Close()
	if p.done != nil {
		<-p.done
	}
	return err
}

type consumer struct {
	cn  *amqp.Connection
	ch  *amqp.Channel
	del <-chan amqp.Delivery
}

// Consumer implements broker.Driver.
func (d *Driver) Consumer(_ context.Context, topic string) (broker.Consumer, error) {
	cn, err := amqp.Dial("amqp://guest:guest@" + d.c.Addr + "/")
	if err != nil {
		return nil, err
	}
	ch, err := cn.Channel()
	if err != nil {
		return nil, err
	}
	if err := ch.Qos(d.c.Prefetch, 0, false); err != nil {
		return nil, err
	}
	del, err := ch.Consume(topic, "loadgen", false, false, false, false, nil)
	return &consumer{cn, ch, del}, err
}

// Run implements broker.Consumer.
func (k *consumer) Run(ctx context.Context, handle func([]byte) error) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case m, ok := <-k.del:
			if !ok {
				return errors.New("the broker closed the channel")
			}
			if err := handle(m.Body); err != nil {
				return err
			}
			if err := m.Ack(false); err != nil {
				return err
			}
		}
	}
}

// Close implements broker.Consumer.
func (k *consumer) Close() error { return k.cn.Close() }
