// Package natsjs loads NATS JetStream through nats.go.
package natsjs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/brokerd/brokerd/tools/loadgen/internal/broker"
)

// Config is the servers' addresses and the streams to create.
type Config struct {
	Addrs    []string // host:port of each server's client port
	Replicas int
	InFlight int // the most messages unacknowledged to a publisher
}

// Driver is the broker.Driver for JetStream.
type Driver struct {
	c      Config
	nc     *nats.Conn
	js     jetstream.JetStream
	byName map[string]string // server name to address
}

// New connects to every server once, to learn which is which.
func New(c Config) (*Driver, error) {
	d := &Driver{c: c, byName: map[string]string{}}
	for _, a := range c.Addrs {
		nc, err := connect(a)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a, err)
		}
		d.byName[nc.ConnectedServerName()] = a
		if d.nc == nil {
			d.nc = nc
		} else {
			nc.Close()
		}
	}
	var err error
	d.js, err = jetstream.New(d.nc, jetstream.WithDefaultTimeout(20*time.Second))
	return d, err
}

func connect(addr string) (*nats.Conn, error) {
	return nats.Connect("nats://"+addr, nats.Name("loadgen"), nats.DontRandomize(), nats.IgnoreDiscoveredServers(), nats.MaxReconnects(0))
}

// dial connects to the leader of the topic's stream, the best place to be.
func (d *Driver) dial(ctx context.Context, topic string) (*nats.Conn, error) {
	addr := d.c.Addrs[0]
	if len(d.c.Addrs) > 1 {
		s, err := d.js.Stream(ctx, topic)
		if err != nil {
			return nil, err
		}
		info, err := s.Info(ctx)
		if err != nil {
			return nil, err
		}
		if info.Cluster == nil || d.byName[info.Cluster.Leader] == "" {
			return nil, errors.New("stream has no known leader")
		}
		addr = d.byName[info.Cluster.Leader]
	}
	return connect(addr)
}

const (
	durable = "group"
	maxAck  = 10000 // the most messages unacknowledged to the consumer
)

// Create implements broker.Driver.
func (d *Driver) Create(ctx context.Context, topic string, group bool) error {
	s, err := d.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: topic, Subjects: []string{topic}, Storage: jetstream.FileStorage,
		Replicas: d.c.Replicas, Retention: jetstream.LimitsPolicy,
	})
	if err != nil || !group {
		return err
	}
	_, err = s.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: durable, AckPolicy: jetstream.AckExplicitPolicy, AckWait: 60 * time.Second,
		MaxAckPending: maxAck, Replicas: d.c.Replicas,
	})
	return err
}

// Delete implements broker.Driver.
func (d *Driver) Delete(ctx context.Context, topic string) error {
	return d.js.DeleteStream(ctx, topic)
}

// Backlog implements broker.Driver.
func (d *Driver) Backlog(ctx context.Context, topic string) (int64, error) {
	c, err := d.js.Consumer(ctx, topic, durable)
	if err != nil {
		return 0, err
	}
	i, err := c.Info(ctx)
	if err != nil {
		return 0, err
	}
	return int64(i.NumPending) + int64(i.NumAckPending), nil
}

// Close implements broker.Driver.
func (d *Driver) Close() error {
	d.nc.Close()
	return nil
}

// fifo holds what Send is waiting for, oldest first.
type fifo struct {
	mu  sync.Mutex
	q   []pending
	cum uint64 // messages handed to Send
	ack uint64 // messages acknowledged
}

type pending struct {
	last  uint64 // the number of the batch's last message, from 1
	acked func(error)
}

func (f *fifo) add(n int, acked func(error)) {
	f.mu.Lock()
	f.cum += uint64(n)
	f.q = append(f.q, pending{f.cum, acked})
	f.mu.Unlock()
}

// next records the acknowledgement of the next message.
func (f *fifo) next() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ack++
	for len(f.q) > 0 && f.q[0].last <= f.ack {
		f.q[0].acked(nil)
		f.q = f.q[1:]
	}
}

func (f *fifo) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.q {
		p.acked(err)
	}
	f.q = nil
}

type publisher struct {
	fifo
	nc    *nats.Conn
	js    jetstream.JetStream
	topic string
}

// Publisher implements broker.Driver.
func (d *Driver) Publisher(ctx context.Context, topic string) (broker.Publisher, error) {
	nc, err := d.dial(ctx, topic)
	if err != nil {
		return nil, err
	}
	p := &publisher{nc: nc, topic: topic}
	p.js, err = jetstream.New(nc,
		jetstream.WithPublishAsyncMaxPending(d.c.InFlight),
		jetstream.WithPublishAsyncAckHandler(func(jetstream.JetStream, *nats.Msg, *jetstream.PubAck) { p.next() }),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, _ *nats.Msg, err error) { p.fail(err) }))
	return p, err
}

// Publish implements broker.Publisher.
func (p *publisher) Publish(body []byte) error {
	_, err := p.js.Publish(context.Background(), p.topic, body)
	return err
}

// Send implements broker.Publisher.
func (p *publisher) Send(bodies [][]byte, acked func(error)) error {
	p.add(len(bodies), acked)
	for _, b := range bodies {
		if _, err := p.js.PublishAsync(p.topic, b, jetstream.WithStallWait(30*time.Second)); err != nil {
			return err
		}
	}
	return nil
}

// Close implements broker.Publisher.
func (p *publisher) Close() error {
	p.nc.Close()
	p.fail(errors.New("closed"))
	return nil
}

type consumer struct {
	nc *nats.Conn
	c  jetstream.Consumer
}

// Consumer implements broker.Driver.
func (d *Driver) Consumer(ctx context.Context, topic string) (broker.Consumer, error) {
	nc, err := d.dial(ctx, topic)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	c, err := js.Consumer(ctx, topic, durable)
	if err != nil {
		return nil, err
	}
	return &consumer{nc, c}, nil
}

// Run implements broker.Consumer.
func (k *consumer) Run(ctx context.Context, handle func([]byte) error) error {
	errs := make(chan error, 1)
	fail := func(err error) {
		select {
		case errs <- err:
		default:
		}
	}
	cc, err := k.c.Consume(func(m jetstream.Msg) {
		err := handle(m.Data())
		if err == nil {
			err = m.Ack()
		}
		if err != nil {
			fail(err)
		}
	}, jetstream.PullMaxMessages(maxAck), jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
		if !errors.Is(err, nats.ErrConnectionClosed) {
			fail(err)
		}
	}))
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case err = <-errs:
	}
	cc.Stop()
	k.nc.FlushTimeout(5 * time.Second)
	return err
}

// Close implements broker.Consumer.
func (k *consumer) Close() error {
	k.nc.Close()
	return nil
}
