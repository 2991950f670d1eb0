package nsq

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/brokerd/brokerd/pkg/client"
	"github.com/brokerd/brokerd/tools/loadgen/internal/broker"
)

// Own is the driver that uses brokerd's own client, pkg/client.
type Own struct{ admin }

// NewOwn returns the driver of pkg/client for c.
func NewOwn(c Config) *Own { return &Own{admin{c}} }

func (d *Own) open() (*client.Client, error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	return client.New([]string{d.TCP}, client.WithLogger(log))
}

type ownPublisher struct {
	c     *client.Client
	topic string
}

// Publisher implements broker.Driver.
func (d *Own) Publisher(_ context.Context, topic string) (broker.Publisher, error) {
	c, err := d.open()
	if err != nil {
		return nil, err
	}
	return &ownPublisher{c, topic}, nil
}

func (p *ownPublisher) Publish(body []byte) error {
	return p.c.Send(context.Background(), client.Outgoing{Topic: p.topic, Body: body})
}

func (p *ownPublisher) Send(bodies [][]byte, acked func(error)) error {
	return p.c.SendAsync(context.Background(), client.Outgoing{Topic: p.topic, Bodies: bodies}, acked)
}

func (p *ownPublisher) Close() error { return p.c.Close(context.Background()) }

type ownConsumer struct {
	c *client.Client
	x *client.Consumer
}

// Consumer implements broker.Driver.
func (d *Own) Consumer(_ context.Context, topic string) (broker.Consumer, error) {
	c, err := d.open()
	if err != nil {
		return nil, err
	}
	x, err := c.Subscribe(topic, channel, client.WithMaxInFlight(d.RDY))
	if err != nil {
		return nil, err
	}
	return &ownConsumer{c, x}, nil
}

func (k *ownConsumer) Run(ctx context.Context, handle func([]byte) error) error {
	for m := range k.x.Messages(ctx) {
		switch err := handle(m.Body); {
		case errors.Is(err, broker.ErrKeep):
			continue
		case err != nil:
			return err
		}
		if err := m.Finish(); err != nil {
			return err
		}
	}
	return k.x.Close(context.WithoutCancel(ctx))
}

func (k *ownConsumer) Close() error { return k.c.Close(context.Background()) }
