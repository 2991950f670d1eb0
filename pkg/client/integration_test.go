package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/brokertest"
	"github.com/brokerd/brokerd/pkg/client"
)

// newClient returns a client that is closed cleanly at the end of the test.
func newClient(t *testing.T, addresses []string, options ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(addresses, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

// soon returns a context whose deadline bounds the whole test.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// collect receives n messages of a channel and finishes them.
func collect(ctx context.Context, t *testing.T, c *client.Client, topic string, n int) []string {
	t.Helper()
	x, err := c.Subscribe(topic, "readers")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for m := range x.Messages(ctx) {
		got = append(got, string(m.Body))
		if err := m.Finish(); err != nil {
			t.Error(err)
		}
		if len(got) == n {
			break
		}
	}
	if err := x.Close(ctx); err != nil {
		t.Error(err)
	}
	slices.Sort(got)
	return got
}

func TestWhatIsPublishedIsConsumed(t *testing.T) {
	b := brokertest.Start(t, brokertest.InMemory())
	for name, with := range map[string][]client.Option{
		"plain": nil, "snappy": {client.WithSnappy()}, "deflate": {client.WithDeflate(6)},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, topic := soon(t), "topic-"+name
			c := newClient(t, []string{b.Addr()}, with...)
			if err := c.Publish(ctx, topic, []byte("a")); err != nil {
				t.Fatal(err)
			}
			if err := c.PublishBatch(ctx, topic, [][]byte{[]byte("b"), []byte("c")}); err != nil {
				t.Fatal(err)
			}
			if err := c.Send(ctx, client.Outgoing{Topic: topic, Body: []byte("d"), Delay: 10 * time.Millisecond, Partition: client.Partition{}}); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			if err := c.PublishAsync(ctx, topic, []byte("e"), func(err error) { done <- err }); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if got := collect(ctx, t, c, topic, 5); !slices.Equal(got, []string{"a", "b", "c", "d", "e"}) {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestHandlersRunConcurrentlyAndAreAwaited(t *testing.T) {
	ctx, b := soon(t), brokertest.Start(t, brokertest.InMemory())
	c := newClient(t, []string{b.Addr()})
	const n = 100
	for i := range n {
		if err := c.PublishAsync(ctx, "jobs", fmt.Append(nil, i), func(err error) {
			if err != nil {
				t.Error(err)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	x, err := c.Subscribe("jobs", "workers", client.WithConcurrency(8))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	seen := map[string]int{}
	enough := make(chan struct{})
	ran := make(chan error)
	go func() {
		ran <- x.Run(ctx, func(_ context.Context, m *client.Message) error {
			mu.Lock()
			defer mu.Unlock()
			if seen[string(m.Body)]++; len(seen) == n {
				close(enough)
			}
			return nil
		})
	}()
	select {
	case <-enough:
	case <-ctx.Done():
		t.Fatal("not all were handled")
	}
	if err := x.Close(ctx); err != nil {
		t.Error(err)
	}
	if err := <-ran; err != nil {
		t.Error(err)
	}
	for body, times := range seen {
		if times != 1 {
			t.Errorf("%s was handled %d times", body, times)
		}
	}
}

func TestFailedMessageIsRetried(t *testing.T) {
	ctx, b := soon(t), brokertest.Start(t, brokertest.InMemory())
	c := newClient(t, []string{b.Addr()})
	if err := c.Publish(ctx, "jobs", []byte("x")); err != nil {
		t.Fatal(err)
	}
	x, err := c.Subscribe("jobs", "workers", client.WithBackoff(time.Millisecond, 2*time.Millisecond), client.WithRequeueDelay(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	var attempts []int
	err = x.Run(running, func(_ context.Context, m *client.Message) error {
		attempts = append(attempts, m.Attempts)
		switch len(attempts) {
		case 1:
			return errors.New("failed")
		case 2:
			panic("failed")
		case 3:
			return client.Later(time.Millisecond)
		}
		stop()
		return nil
	})
	if err != nil || !slices.Equal(attempts, []int{1, 2, 3, 4}) {
		t.Errorf("attempts %v, %v", attempts, err)
	}
}

// TestAClusterLosesAndKeeps publishes and consumes while nodes are killed: acknowledged messages
// arrive, refused ones do not.
func TestClusterKeepsAcknowledgedMessages(t *testing.T) {
	ctx := soon(t)
	nodes := brokertest.Cluster(t, 3, brokertest.InMemory())
	for name, addresses := range map[string][]string{
		"addresses": nodes.Addrs(), "lookup": {nodes[0].URL(), nodes[1].URL(), nodes[2].URL()},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, addresses, client.WithReconnect(10*time.Millisecond, 100*time.Millisecond), client.WithHeartbeat(time.Second))
			topic := "orders-" + name
			var mu sync.Mutex
			acked, uncertain := map[string]bool{}, map[string]bool{}
			var publishing sync.WaitGroup
			const n = 300
			publish := func(from, to int) {
				for i := from; i < to; i++ {
					body := fmt.Sprint(i)
					err := c.Publish(ctx, topic, []byte(body))
					mu.Lock()
					switch {
					case err == nil:
						acked[body] = true
					case errors.Is(err, client.ErrUncertain):
						uncertain[body] = true
					default:
						t.Errorf("%s: %v", body, err)
					}
					mu.Unlock()
				}
			}
			publish(0, n/3)
			publishing.Go(func() { publish(n/3, n) })
			victim := nodes[len(name)%3]
			victim.Kill()
			publishing.Wait()
			got := map[string]bool{}
			x, err := c.Subscribe(topic, "readers")
			if err != nil {
				t.Fatal(err)
			}
			for m := range x.Messages(ctx) {
				got[string(m.Body)] = true
				delete(acked, string(m.Body))
				_ = m.Finish() // it may be redelivered
				if len(acked) == 0 {
					break
				}
			}
			if len(acked) > 0 {
				t.Errorf("%d acknowledged messages did not arrive; %d were uncertain", len(acked), len(uncertain))
			}
			if len(uncertain) > n/10 {
				t.Errorf("%d of %d are uncertain", len(uncertain), n)
			}
			victim.Restart()
			if err := x.Close(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}
