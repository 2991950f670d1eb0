package broker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/consume"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// slowHandlers are consumers on several nodes that hold messages for long.
type slowHandlers struct {
	l    *lan
	all  map[meta.NodeID]*consumer
	held map[*consumer][]seq.MessageID
	seen map[string]meta.NodeID // bodies, by the node of the consumer
}

func newSlowHandlers(l *lan, ready int, change ...func(*consume.Subscribe)) *slowHandlers {
	l.create("t", "n1", "n2", "n3")
	l.leader("t", 0)
	x := &slowHandlers{l: l, all: map[meta.NodeID]*consumer{}, held: map[*consumer][]seq.MessageID{}, seen: map[string]meta.NodeID{}}
	for _, id := range []meta.NodeID{"n1", "n2", "n3"} {
		c := (&node{Broker: l.at(id), t: l.t}).subscribe("t", "c", change...)
		c.SetReady(ready)
		x.all[id] = c
	}
	return x
}

// take takes what is there, and reports what was delivered before.
func (x *slowHandlers) take(nodes ...meta.NodeID) (n int) {
	x.l.t.Helper()
	for _, id := range nodes {
		c := x.all[id]
		if _, err := c.Take(time.Now(), 100, func(d *topic.Delivery) error {
			if before, again := x.seen[string(d.Body)]; again || d.Attempts != 1 {
				x.l.t.Errorf("%s: %s was delivered at %s, and again at %s: attempt %d; led by %s", time.Now().Format("05.000"), d.Body, before, id, d.Attempts, x.l.store.Topic("t").Partitions[0].Leader)
			}
			x.seen[string(d.Body)] = id
			x.held[c] = append(x.held[c], d.ID)
			n++
			return nil
		}); err != nil {
			x.l.t.Fatal(err)
		}
	}
	return n
}

// work gives the brokers time, while the consumers take what they can get.
func (x *slowHandlers) work(d time.Duration) {
	x.l.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		x.take("n1", "n2", "n3")
		time.Sleep(5 * time.Millisecond)
	}
}

// finish finishes k of the messages that each consumer holds.
func (x *slowHandlers) finish(k int) {
	x.l.t.Helper()
	for id, c := range x.all {
		for _, m := range x.held[c][:min(k, len(x.held[c]))] {
			if err := c.Finish(m); err != nil {
				x.l.t.Errorf("finish at %s: %v", id, err)
			}
		}
		x.held[c] = x.held[c][min(k, len(x.held[c])):]
	}
}

// done checks that every message was delivered once, and that every finish counted.
func (x *slowHandlers) done(messages int) {
	x.l.t.Helper()
	if len(x.seen) != messages {
		x.l.t.Errorf("%d of %d messages were delivered", len(x.seen), messages)
	}
	for id, c := range x.all {
		c.mu.Lock()
		for m, err := range c.unfinished {
			x.l.t.Errorf("finish of %d at %s failed: %v", m, id, err)
		}
		c.mu.Unlock()
		if err := c.ended.Load(); err != nil {
			x.l.t.Errorf("the client of %s was disconnected: %v", id, *err)
		}
	}
	s := x.l.leader("t", 0).Host.Lookup("t").Led(0).Part.Channel("c").Stats()
	if s.Depth != 0 || s.InFlight != 0 || s.Floor != seq.Offset(messages) {
		x.l.t.Errorf("left over: %d waiting, %d in flight, finished below %d", s.Depth, s.InFlight, s.Floor)
	}
}

func (x *slowHandlers) put(from, to int) {
	x.l.t.Helper()
	for i := from; i < to; i++ {
		x.l.mustPut("t", 0, fmt.Sprint(i))
	}
}

func TestMessagesInFlightFollowATransfer(t *testing.T) {
	for name, change := range map[string]func(*consume.Subscribe){
		"unordered": func(*consume.Subscribe) {},
		"strict":    func(r *consume.Subscribe) { r.Ordered = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLan(t, nil, "n1", "n2", "n3")
				x := newSlowHandlers(l, 3, change)
				x.put(0, 30)
				l.inSync("t", 0, 3)
				x.work(time.Second)
				for _, to := range []meta.NodeID{"n2", "n3", "n1", "n3"} {
					if err := l.transfer(t.Context(), "t", to); err != nil {
						t.Fatal(err)
					}
					x.finish(1)
					x.work(2 * time.Second)
				}
				for range 40 {
					x.finish(3)
					x.work(100 * time.Millisecond)
				}
				x.done(30)
			})
		})
	}
}

// A node that is about to stop gives its leaderships away. Clients of other nodes keep what they have.
func TestStopKeepsMessagesOfOtherNodesClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, nil, "n1", "n2", "n3")
		x := newSlowHandlers(l, 3)
		x.all["n1"].Close() // its client has found another node
		delete(x.all, "n1")
		x.put(0, 20)
		l.inSync("t", 0, 3)
		for range 100 {
			x.take("n2", "n3")
			time.Sleep(10 * time.Millisecond)
		}
		if err := l.at("n1").Host.Handover(t.Context()); err != nil {
			t.Fatal(err)
		}
		x.finish(2)
		l.stop("n1")
		for range 30 {
			x.take("n2", "n3")
			x.finish(1)
			time.Sleep(100 * time.Millisecond)
		}
		x.done(20)
	})
}

// What the clients of a stopping node have is delivered to others at once.
func TestStopReturnsMessagesOfItsClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, nil, "n1", "n2", "n3")
		l.create("t", "n1", "n2", "n3")
		c := l.subscribe("t", "c", 0)
		l.mustPut("t", 0, "a", "b")
		l.inSync("t", 0, 3)
		c.takeSome(2)
		if err := l.at("n1").Host.Handover(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if got := l.subscribe("t", "c", 0).take(2); got != "a b" || time.Since(began) > time.Second {
			t.Errorf("got %q after %v", got, time.Since(began))
		}
	})
}

// If the transfer fails, the leader and its consumers continue as if nothing had happened, and answers that were
// given meanwhile count.
func TestFailedTransferKeepsMessagesInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, nil, "n1", "n2", "n3")
		x := newSlowHandlers(l, 3)
		x.put(0, 20)
		l.inSync("t", 0, 3)
		x.work(time.Second)
		l.hosts["n2"].away.Store(true) // it answers no call, so it does not learn what is in flight
		done := make(chan error)
		go func() { done <- l.transfer(t.Context(), "t", "n2") }()
		for answered, failed := 0, false; !failed; {
			select {
			case err := <-done:
				if failed = true; err == nil {
					t.Error("the transfer succeeded")
				}
			default:
				if answered < 2 { // each holds three: one stays in flight, or there would be nothing to tell
					answered++
					x.finish(1)
				}
				time.Sleep(time.Millisecond)
			}
		}
		l.hosts["n2"].away.Store(false)
		if leader := l.store.Topic("t").Partitions[0].Leader; leader != "n1" {
			t.Errorf("%s leads", leader)
		}
		for range 30 {
			x.finish(1)
			x.work(100 * time.Millisecond)
		}
		x.done(20)
	})
}

// Messages in flight of clients that do not come back wait at the new leader until it knows that.
func TestMessagesOfGoneClientsAreReturned(t *testing.T) {
	for name, c := range map[string]struct {
		leave func(l *lan, c *consumer)
		after time.Duration // at most
	}{
		"the client leaves":      {func(_ *lan, c *consumer) { c.Close() }, time.Second},
		"the node is down":       {func(l *lan, _ *consumer) { l.kill("n3"); l.failOver("n3") }, time.Second},
		"the node hangs":         {func(l *lan, _ *consumer) { l.hosts["n3"].dead.Store(l.at("n3")) }, topic.ReturnAfter + time.Second},
		"the message times out":  {func(*lan, *consumer) {}, 6 * time.Second},
		"the client wants it no": {func(_ *lan, c *consumer) { _ = c.Requeue(seq.NewMessageID(0, 0), 0) }, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLan(t, nil, "n1", "n2", "n3")
				l.create("t", "n1", "n2", "n3")
				l.leader("t", 0)
				k := (&node{Broker: l.at("n3"), t: t}).subscribe("t", "c", func(r *consume.Subscribe) {
					if name == "the message times out" {
						r.MsgTimeout = 5 * time.Second
					}
				})
				l.mustPut("t", 0, "a")
				l.inSync("t", 0, 3)
				k.takeSome(1)
				if err := l.transfer(t.Context(), "t", "n2"); err != nil {
					t.Fatal(err)
				}
				k.SetReady(0) // or it may get the message once more
				c.leave(l, k)
				began := time.Now()
				other := (&node{Broker: l.at("n2"), t: t}).subscribe("t", "c")
				if got := other.takeSome(1); got[0].Attempts != 2 {
					t.Errorf("attempt %d", got[0].Attempts)
				}
				if took := time.Since(began); took > c.after {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// While the leadership moves, the client's messages count for its credit.
func TestMessagesInFlightCountForTheCredit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, nil, "n1", "n2", "n3")
		if _, err := l.at("n1").Directory.CreateTopic(t.Context(), "t", meta.TopicConfig{Partitions: 2, Replicas: 3}); err != nil {
			t.Fatal(err)
		}
		l.inSync("t", 0, 3)
		l.inSync("t", 1, 3)
		for i := range 2 {
			if l.leader("t", i) != l.at("n1") {
				l.elect("t", i, "n1")
			}
			l.leader("t", i)
		}
		c := (&node{Broker: l.at("n1"), t: t}).subscribe("t", "c")
		c.SetReady(2)
		l.mustPut("t", 0, "a", "b")
		got := c.takeSome(2)
		l.mustPut("t", 1, "c", "d")
		if err := l.transfer(t.Context(), "t", "n2"); err != nil {
			t.Fatal(err)
		}
		for range 200 {
			if n, err := c.Take(time.Now(), 2, func(*topic.Delivery) error { return nil }); n > 0 || err != nil {
				t.Fatalf("%d delivered beyond the credit, %v", n, err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		for _, d := range got {
			if err := c.Finish(d.ID); err != nil {
				t.Error(err)
			}
		}
		if got := c.take(2); got != "c d" {
			t.Errorf("got %q", got)
		}
	})
}
