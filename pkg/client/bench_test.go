package client_test

import (
	"context"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nsqio/go-nsq"

	"github.com/brokerd/brokerd/pkg/brokertest"
	"github.com/brokerd/brokerd/pkg/client"
)

// brokerFor returns the address of the broker named by BROKER, or of one in the process.
func brokerFor(b *testing.B) string {
	if a := os.Getenv("BROKER"); a != "" {
		return a
	}
	return brokertest.Start(b, brokertest.InMemory(), brokertest.Set("sync", "interval")).Addr()
}

// contender is a client in the comparison.
type contender struct {
	publish func(topic string, body []byte) error
	async   func(topic string, body []byte, done func(error)) error
	consume func(b *testing.B, topic string, n int)
}

func ours(b *testing.B, address string) contender {
	c, err := client.New([]string{address})
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	b.Cleanup(func() { _ = c.Close(ctx) })
	return contender{
		publish: func(topic string, body []byte) error { return c.Publish(ctx, topic, body) },
		async:   func(topic string, body []byte, done func(error)) error { return c.PublishAsync(ctx, topic, body, done) },
		consume: func(b *testing.B, topic string, n int) {
			x, err := c.Subscribe(topic, "bench", client.WithMaxInFlight(1000), client.WithConcurrency(4))
			if err != nil {
				b.Fatal(err)
			}
			ctx, stop := context.WithCancel(ctx)
			var left atomic.Int64
			left.Store(int64(n))
			_ = x.Run(ctx, func(context.Context, *client.Message) error {
				if left.Add(-1) == 0 {
					stop()
				}
				return nil
			})
			_ = x.Close(context.Background())
		},
	}
}

func goNSQ(b *testing.B, address string) contender {
	p, err := nsq.NewProducer(address, nsq.NewConfig())
	if err != nil {
		b.Fatal(err)
	}
	p.SetLoggerLevel(nsq.LogLevelMax)
	b.Cleanup(p.Stop)
	return contender{
		publish: p.Publish,
		async: func(topic string, body []byte, done func(error)) error {
			ch := make(chan *nsq.ProducerTransaction, 1)
			if err := p.PublishAsync(topic, body, ch); err != nil {
				return err
			}
			go func() { done((<-ch).Error) }()
			return nil
		},
		consume: func(b *testing.B, topic string, n int) {
			cfg := nsq.NewConfig()
			cfg.MaxInFlight = 1000
			x, err := nsq.NewConsumer(topic, "bench", cfg)
			if err != nil {
				b.Fatal(err)
			}
			x.SetLoggerLevel(nsq.LogLevelMax)
			done := make(chan bool)
			var left atomic.Int64
			left.Store(int64(n))
			x.AddConcurrentHandlers(nsq.HandlerFunc(func(*nsq.Message) error {
				if left.Add(-1) == 0 {
					close(done)
				}
				return nil
			}), 4)
			if err := x.ConnectToNSQD(address); err != nil {
				b.Fatal(err)
			}
			<-done
			x.Stop()
			<-x.StopChan
		},
	}
}

func contenders() map[string]func(*testing.B, string) contender {
	return map[string]func(*testing.B, string) contender{"client": ours, "go-nsq": goNSQ}
}

// BenchmarkPublish publishes from n goroutines, one message at a time each.
func BenchmarkPublish(b *testing.B) {
	address := brokerFor(b)
	body := make([]byte, 128)
	for _, goroutines := range []int{1, 16, 256} {
		for name, open := range contenders() {
			b.Run(name+"/"+itoa(goroutines), func(b *testing.B) {
				c := open(b, address)
				if err := c.publish("bench-publish", body); err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				var left atomic.Int64
				left.Store(int64(b.N))
				var wg sync.WaitGroup
				b.ResetTimer()
				for range goroutines {
					wg.Go(func() {
						for left.Add(-1) >= 0 {
							if err := c.publish("bench-publish", body); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
			})
		}
	}
}

// BenchmarkAsync publishes from one goroutine without waiting, with at most 1,000 publishes in
// progress.
func BenchmarkAsync(b *testing.B) {
	address := brokerFor(b)
	body := make([]byte, 128)
	for name, open := range contenders() {
		b.Run(name, func(b *testing.B) {
			c := open(b, address)
			if err := c.publish("bench-async", body); err != nil {
				b.Fatal(err)
			}
			window := make(chan struct{}, 1000)
			b.ReportAllocs()
			for b.Loop() {
				window <- struct{}{}
				if err := c.async("bench-async", body, func(err error) {
					if err != nil {
						b.Error(err)
					}
					<-window
				}); err != nil {
					b.Fatal(err)
				}
			}
			for range cap(window) {
				window <- struct{}{}
			}
		})
	}
}

// BenchmarkConsume consumes a backlog with an empty handler.
func BenchmarkConsume(b *testing.B) {
	address := brokerFor(b)
	body := make([]byte, 128)
	for name, open := range contenders() {
		b.Run(name, func(b *testing.B) {
			c := open(b, address)
			filler, err := client.New([]string{address})
			if err != nil {
				b.Fatal(err)
			}
			topic := "bench-consume-" + itoa(b.N) + "-" + itoa(int(time.Now().UnixNano()))
			batch := make([][]byte, 100)
			for i := range batch {
				batch[i] = body
			}
			for n := 0; n < b.N; n += len(batch) {
				if err := filler.PublishBatch(b.Context(), topic, batch[:min(len(batch), b.N-n)]); err != nil {
					b.Fatal(err)
				}
			}
			if err := filler.Close(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			c.consume(b, topic, b.N)
		})
	}
}

func itoa(n int) string { return strconv.Itoa(n) }
