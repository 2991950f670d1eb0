package nsq

import (
	"context"
	"time"

	gonsq "github.com/nsqio/go-nsq"

	"github.com/brokerd/brokerd/tools/loadgen/internal/broker"
)

// Client is the driver that uses go-nsq, like most programs.
type Client struct{ admin }

// NewClient returns the go-nsq driver for c.
func NewClient(c Config) *Client { return &Client{admin{c}} }

func (d *Client) config() *gonsq.Config {
	g := gonsq.NewConfig()
	g.MaxInFlight = d.RDY
	return g
}

type clientPublisher struct {
	p     *gonsq.Producer
	topic string
	done  chan *gonsq.ProducerTransaction
	end   chan struct{}
}

// Publisher implements broker.Driver.
func (d *Client) Publisher(_ context.Context, topic string) (broker.Publisher, error) {
	p, err := gonsq.NewProducer(d.TCP, d.config())
	if err != nil {
		return nil, err
	}
	p.SetLoggerLevel(gonsq.LogLevelError)
	if err := p.Ping(); err != nil {
		return nil, err
	}
	return &clientPublisher{p: p, topic: topic}, nil
}

func (p *clientPublisher) Publish(body []byte) error { return p.p.Publish(p.topic, body) }

func (p *clientPublisher) Send(bodies [][]byte, acked func(error)) error {
	if p.done == nil {
		p.done, p.end = make(chan *gonsq.ProducerTransaction, inFlight), make(chan struct{})
		go func() {
			for {
				select {
				case t := <-p.done:
					t.Args[0].(func(error))(t.Error)
				case <-p.end:
					return
				}
			}
		}()
	}
	if len(bodies) == 1 {
		return p.p.PublishAsync(p.topic, bodies[0], p.done, acked)
	}
	return p.p.MultiPublishAsync(p.topic, bodies, p.done, acked)
}

func (p *clientPublisher) Close() error {
	p.p.Stop()
	if p.end != nil {
		close(p.end)
	}
	return nil
}

type clientConsumer struct {
	c    *gonsq.Consumer
	addr string
}

// Consumer implements broker.Driver.
func (d *Client) Consumer(_ context.Context, topic string) (broker.Consumer, error) {
	c, err := gonsq.NewConsumer(topic, channel, d.config())
	if err != nil {
		return nil, err
	}
	c.SetLoggerLevel(gonsq.LogLevelError)
	return &clientConsumer{c, d.TCP}, nil
}

func (k *clientConsumer) Run(ctx context.Context, handle func([]byte) error) error {
	errs := make(chan error, 1)
	k.c.AddHandler(gonsq.HandlerFunc(func(m *gonsq.Message) error {
		if err := handle(m.Body); err != nil {
			select {
			case errs <- err:
			default:
			}
			return err
		}
		return nil // go-nsq sends the FIN
	}))
	if err := k.c.ConnectToNSQD(k.addr); err != nil {
		return err
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-errs:
	}
	k.c.Stop()
	select {
	case <-k.c.StopChan:
	case <-time.After(5 * time.Second):
	}
	return err
}

func (k *clientConsumer) Close() error { return nil }
