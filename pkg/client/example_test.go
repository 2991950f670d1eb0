package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/brokertest"
	"github.com/brokerd/brokerd/pkg/client"
)

// address is the broker that the examples use. TestMain of package client starts none, so the first
// example that needs it does.
var address = sync.OnceValue(func() string {
	if a := os.Getenv("BROKER"); a != "" {
		return a
	}
	b := brokertest.Start(forExamples{}, brokertest.InMemory())
	c, err := client.New([]string{b.Addr()})
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Publish(context.Background(), "payments", []byte("0 EUR")); err != nil { // it creates the topic
		log.Fatal(err)
	}
	_ = c.Close(context.Background())
	return b.Addr()
})

// forExamples replaces testing.TB, which an example does not have.
type forExamples struct{ testing.TB }

func (forExamples) Helper()                   {}
func (forExamples) Cleanup(f func())          { atEnd = append(atEnd, f) }
func (forExamples) Fatalf(f string, a ...any) { log.Fatalf(f, a...) }
func (forExamples) TempDir() string {
	dir, err := os.MkdirTemp("", "client-examples")
	if err != nil {
		log.Fatal(err)
	}
	atEnd = append(atEnd, func() { _ = os.RemoveAll(dir) })
	return dir
}

// Publish a message and read it.
func Example() {
	ctx := context.Background()
	c, err := client.New([]string{address()})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(ctx)
	if err := c.Publish(ctx, "greetings", []byte("hello")); err != nil {
		log.Fatal(err)
	}

	x, err := c.Subscribe("greetings", "readers")
	if err != nil {
		log.Fatal(err)
	}
	for m := range x.Messages(ctx) {
		fmt.Println(string(m.Body))
		if err := m.Finish(); err != nil {
			log.Print(err) // it will be delivered again
		}
		break
	}
	// Output: hello
}

// An error reports the outcome of the publish.
func ExampleClient_Publish() {
	ctx := context.Background()
	c, err := client.New([]string{address()})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(ctx)
	err = c.Publish(ctx, "no spaces please", []byte("hello"))
	switch {
	case err == nil:
		fmt.Println("published")
	case errors.Is(err, client.ErrRefused):
		fmt.Println("not published:", err)
	case errors.Is(err, client.ErrUncertain):
		fmt.Println("perhaps published:", err)
	}
	// Output: not published: publish message to no spaces please: refused: topic name "no spaces please" is not valid
}

// A batch is published to one partition, as a whole or not at all.
func ExampleClient_PublishBatch() {
	ctx := context.Background()
	c, err := client.New([]string{address()})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(ctx)
	err = c.PublishBatch(ctx, "batches", [][]byte{[]byte("one"), []byte("two")})
	fmt.Println(err)
	// Output: <nil>
}

// Many messages are in progress at the same time; each has its own outcome.
func ExampleClient_PublishAsync() {
	ctx := context.Background()
	c, err := client.New([]string{address()}, client.WithMaxInFlightBytes(1<<20))
	if err != nil {
		log.Fatal(err)
	}
	var published sync.WaitGroup
	for i := range 1000 {
		published.Add(1)
		err := c.PublishAsync(ctx, "events", fmt.Append(nil, i), func(err error) {
			if err != nil {
				log.Print(err)
			}
			published.Done()
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	published.Wait()
	fmt.Println(c.Close(ctx)) // it would have waited for them as well
	// Output: <nil>
}

// A message is delivered after a delay.
func ExampleClient_Send() {
	ctx := context.Background()
	c, err := client.New([]string{address()})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(ctx)
	began := time.Now()
	err = c.Send(ctx, client.Outgoing{Topic: "reminders", Body: []byte("stand up"), Delay: 50 * time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	x, err := c.Subscribe("reminders", "people")
	if err != nil {
		log.Fatal(err)
	}
	for m := range x.Messages(ctx) {
		fmt.Println(string(m.Body), time.Since(began) >= 50*time.Millisecond, m.Finish())
		break
	}
	// Output: stand up true <nil>
}

// With its own ids, a client may resend a message whose outcome is uncertain: the broker stores it
// once.
func ExampleWithDedup() {
	ctx := context.Background()
	c, err := client.New([]string{address()}, client.WithDedup())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(ctx)
	if err := c.Publish(ctx, "payments", []byte("10 EUR")); err != nil {
		log.Fatal(err)
	}
	// The id may be the program's own: this message is stored once, however often the program runs.
	for range 3 {
		err := c.Send(ctx, client.Outgoing{Topic: "payments", Body: []byte("20 EUR"), DedupID: "invoice-4711", Key: "customer-7"})
		if err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("paid")
	// Output: paid
}

// A handler finishes its message by returning nil. Any error except one of Later requeues it and makes the
// consumer back off.
func ExampleConsumer_Run() {
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	c, err := client.New([]string{address()})
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Publish(ctx, "jobs", []byte("build")); err != nil {
		log.Fatal(err)
	}
	x, err := c.Subscribe("jobs", "workers", client.WithConcurrency(4), client.WithAutoTouch())
	if err != nil {
		log.Fatal(err)
	}
	err = x.Run(ctx, func(_ context.Context, m *client.Message) error {
		if m.Attempts == 1 {
			fmt.Println(string(m.Body), "has to wait")
			return client.Later(10 * time.Millisecond)
		}
		fmt.Println(string(m.Body), "is done")
		done()
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(c.Close(context.Background())) // sends the finishes to the broker
	// Output:
	// build has to wait
	// build is done
	// <nil>
}

// Messages of one customer are handled one after another, those of different customers at the
// same time.
func ExampleWithKeyOrder() {
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	c, err := client.New([]string{address()})
	if err != nil {
		log.Fatal(err)
	}
	for _, order := range []string{"ann:tea", "bob:rye", "ann:jam"} {
		if err := c.Publish(ctx, "groceries", []byte(order)); err != nil {
			log.Fatal(err)
		}
	}
	customer := func(m *client.Message) string {
		name, _, _ := strings.Cut(string(m.Body), ":")
		return name
	}
	x, err := c.Subscribe("groceries", "shop", client.WithConcurrency(8), client.WithKeyOrder(customer))
	if err != nil {
		log.Fatal(err)
	}
	var mu sync.Mutex
	bought := map[string][]string{}
	left := 3
	err = x.Run(ctx, func(_ context.Context, m *client.Message) error {
		mu.Lock()
		defer mu.Unlock()
		bought[customer(m)] = append(bought[customer(m)], string(m.Body))
		if left--; left == 0 {
			done()
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(bought["ann"], bought["bob"], c.Close(context.Background()))
	// Output: [ann:tea ann:jam] [bob:rye] <nil>
}

// Hooks count what happens, for a program's metrics.
func ExampleWithHooks() {
	ctx := context.Background()
	var published int
	c, err := client.New([]string{address()}, client.WithHooks(client.Hooks{
		Published: func(_ string, messages int, _ time.Duration, err error) {
			if err == nil {
				published += messages // with concurrent publishes this would need a lock
			}
		},
	}))
	if err != nil {
		log.Fatal(err)
	}
	_ = c.Publish(ctx, "counted", []byte("one"))
	_ = c.Close(ctx)
	fmt.Println(published)
	// Output: 1
}

// A consumer of one partition, for a worker that keeps the state of its messages. The client takes small messages
// only, and looks for the partition's leader every 10 s even if nothing has failed.
func ExampleWithPartition() {
	ctx := context.Background()
	c, err := client.New([]string{address()}, client.WithMaxMessageBytes(64<<10), client.WithRefresh(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(ctx)
	to := client.InPartition(0)
	if err := c.Send(ctx, client.Outgoing{Topic: "readings", Body: []byte("21.5"), Partition: to}); err != nil {
		log.Fatal(err)
	}
	x, err := c.Subscribe("readings", "averages", client.WithPartition(to))
	if err != nil {
		log.Fatal(err)
	}
	for m := range x.Messages(ctx) {
		fmt.Println(string(m.Body))
		if err := m.Finish(); err != nil {
			log.Print(err)
		}
		break
	}
	// Output: 21.5
}
