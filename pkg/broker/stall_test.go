package broker

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/consume"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/relay"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// reader is a client under the control of a test: while it reads it takes and answers
// as fast as it can, and while it stalls it does nothing.
type reader struct {
	*consumer
	got map[string]int // deliveries of each body
}

// readFor reads and finishes all messages for a time, with or without being
// woken.
func (r *reader) readFor(d time.Duration) {
	r.t.Helper()
	end := time.After(d)
	for {
		var ids []seq.MessageID
		n, err := r.Take(time.Now(), 16, func(d *topic.Delivery) error {
			r.got[name(d.Body)]++
			ids = append(ids, d.ID)
			return nil
		})
		if err != nil {
			r.t.Fatal(err)
		}
		for _, id := range ids {
			_ = r.Finish(id) // a message that timed out is redelivered
		}
		if n > 0 {
			continue
		}
		select {
		case <-r.woken: // as the writer of a connection, it looks again only when it is woken
		case <-end:
			return
		}
	}
}

// hold takes up to n messages and does not answer them.
func (r *reader) hold(n int) {
	r.t.Helper()
	if _, err := r.Take(time.Now(), n, func(d *topic.Delivery) error { r.got[name(d.Body)]++; return nil }); err != nil {
		r.t.Fatal(err)
	}
}

// name returns the part of a body before its padding.
func name(body []byte) string {
	s, _, _ := strings.Cut(string(body), " ")
	return s
}

func padded(name string, size int) string { return name + " " + strings.Repeat("x", size) }

// A client of a relaying node stops reading for longer than its message timeout
// while more messages wait than the relay holds. When it reads again it gets all
// of them.
func TestStalledRelayFetchesAgain(t *testing.T) {
	for _, test := range []struct {
		name           string
		size, messages int
		ready          int
	}{
		{"few large messages", 300 << 10, 20, 10},
		{"many small messages", 100, 3000, 2500},
		{"one message larger than the relay holds", relay.QueueBytes + 1, 3, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMesh(t, "n1", "n2")
				m.create("t", "n2")
				const timeout = 400 * time.Millisecond
				r := &reader{m.nodes["n1"].subscribe("t", "c", func(s *consume.Subscribe) { s.MsgTimeout = timeout }), map[string]int{}}
				r.SetReady(test.ready)
				for i := range test.messages {
					m.nodes["n2"].put("t", padded(fmt.Sprint(i), test.size))
				}
				time.Sleep(5 * time.Second) // its socket is full
				if n := m.nodes["n2"].channelStats("t", "c"); n.DeliveredTotal > uint64(3*test.ready) {
					t.Errorf("%d messages were sent to a client that does not read and lets %d be in flight", n.DeliveredTotal, test.ready)
				}
				if relayed := r.Sources.Load().Relays[0]; relayed.Claim().InFlight > 0 {
					t.Errorf("the relay holds %d messages that the leader gave up long ago", relayed.Claim().InFlight)
				}
				if n := strings.Count(m.lines.String(), "consumer stopped reading"); n != 1 || !strings.Contains(m.lines.String(), "channel=c") {
					t.Errorf("complained %d times of the client:\n%s", n, m.lines.String())
				}
				r.readFor(5 * time.Second)
				if n := m.nodes["n2"].finished("t", "c"); n != uint64(test.messages) || len(r.got) != test.messages {
					t.Errorf("the client reads again: %d of %d messages are finished, %d were received", n, test.messages, len(r.got))
				}
			})
		})
	}
}

// Messages that a stalled client holds are delivered to others.
func TestStalledClientStarvesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, "n1", "n2")
		m.create("t", "n2")
		stalled := m.nodes["n1"].subscribe("t", "c", func(s *consume.Subscribe) { s.MsgTimeout = time.Second })
		for i := range 500 {
			m.nodes["n2"].put("t", padded(fmt.Sprint(i), 10))
		}
		synctest.Wait()
		r := &reader{m.nodes["n1"].subscribe("t", "c", func(s *consume.Subscribe) { s.MsgTimeout = time.Second }), map[string]int{}}
		r.readFor(4 * time.Second)
		if len(r.got) != 500 {
			t.Errorf("got %d of 500 messages beside a client that does not read", len(r.got))
		}
		if stalled.ended.Load() != nil {
			t.Errorf("the stalled client is disconnected: %v", *stalled.ended.Load())
		}
	})
}

// A relay that holds too many messages to fetch more continues when the partitions
// of those messages get other leaders.
func TestRelayFetchesRemainingPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, "n1", "n2")
		m.create("t", "n2", "n2")
		c := m.nodes["n1"].subscribe("t", "c")
		for range 8 {
			m.nodes["n2"].publish(publish.Request{Topic: "t", Partition: 0, Messages: []topic.Message{{Body: make([]byte, 300<<10)}}})
		}
		synctest.Wait()
		m.nodes["n2"].publish(publish.Request{Topic: "t", Partition: 1, Messages: []topic.Message{{Body: []byte("a")}}})
		synctest.Wait()
		c.mustWake()
		r := c.Sources.Load().Relays[0]
		if !r.Loses(func(partition int) bool { return partition == 0 }) {
			t.Fatal("the relay has no partition left")
		}
		c.mustWake() // it had not looked before: the relay fetches by itself
		if got := c.takeSome(1); string(got[0].Body) != "a" {
			t.Errorf("got %d bytes, and not the message of the partition that is left", len(got[0].Body))
		}
		c.idle() // what was sent of the other one belongs to its next leader
	})
}

// mustWake waits until the consumer is woken.
func (c *consumer) mustWake() {
	c.t.Helper()
	select {
	case <-c.woken:
	case <-time.After(patience):
		c.t.Fatal("not woken")
	}
}

// A client without room for the relay's messages is woken when the messages that it
// holds time out.
func TestClientWithRoomIsWokenForRelayedMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, "n1", "n2")
		m.create("t", "n2")
		r := &reader{m.nodes["n1"].subscribe("t", "c", func(s *consume.Subscribe) { s.MsgTimeout = time.Second }), map[string]int{}}
		r.SetReady(10)
		for i := range 3 {
			m.nodes["n2"].put("t", fmt.Sprint(i))
		}
		synctest.Wait()
		r.hold(3)
		time.Sleep(500 * time.Millisecond)
		for i := range 5 {
			m.nodes["n2"].put("t", fmt.Sprint("later", i))
		}
		synctest.Wait()
		r.SetReady(3)
		r.hold(3) // there is no room: it waits to be woken
		r.mustWake()
		r.readFor(700 * time.Millisecond) // the first three have timed out, the others have not
		if n := r.got["later0"]; n != 1 || len(r.got) != 8 {
			t.Errorf("got %v; want what came later when the client has room, once", r.got)
		}
	})
}

// A client may take messages without answering, stop reading, set RDY to 0,
// leave, or lose its leader. Once clients read again, every message is finished
// within bounded time.
func TestEverythingIsDeliveredAfterAnyStall(t *testing.T) {
	first := testrand.Seed(t)
	for i := range uint64(25) {
		synctest.Test(t, func(t *testing.T) { stallAtRandom(t, first+i) })
		if t.Failed() {
			return
		}
	}
}

// FuzzStall is that test with seeds from the fuzzer.
func FuzzStall(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { stallAtRandom(t, seed) })
	})
}

// stallRun is one random run.
type stallRun struct {
	t       *testing.T
	rnd     *rand.Rand
	m       *mesh
	timeout time.Duration
	readers []*reader
	put     int
}

func stallAtRandom(t *testing.T, seed uint64) {
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	rnd := rand.New(rand.NewPCG(seed, 1))
	x := &stallRun{t: t, rnd: rnd, m: newMesh(t, "n1", "n2", "n3"), timeout: time.Duration(200+rnd.IntN(1800)) * time.Millisecond}
	leaders := [][]meta.NodeID{{"n2"}, {"n2", "n3"}, {"n2", "n2", "n3"}, {"n1", "n2", "n3"}, {"n1", "n2"}}[rnd.IntN(5)]
	x.m.create("t", leaders...)
	for range 1 + rnd.IntN(2) {
		x.join()
	}
	size := []int{10, 1000, 100 << 10, 400 << 10, relay.QueueBytes}[rnd.IntN(5)]
	for range 5 + rnd.IntN(15) {
		x.step(size, len(leaders))
	}
	x.settle()
}

// join adds a client at the relaying node.
func (x *stallRun) join() {
	c := x.m.nodes["n1"].subscribe("t", "c", func(s *consume.Subscribe) { s.MsgTimeout = x.timeout })
	c.SetReady([]int{1, 2, 7, 100, 2500}[x.rnd.IntN(5)])
	x.readers = append(x.readers, &reader{c, map[string]int{}})
}

func (x *stallRun) step(size, partitions int) {
	k := x.rnd.IntN(len(x.readers))
	r := x.readers[k]
	switch x.rnd.IntN(10) {
	case 0, 1, 2: // more arrives
		for range 1 + x.rnd.IntN(min(max(6, 100_000/size), 200)) {
			x.m.nodes["n1"].publish(publish.Request{Topic: "t", Partition: x.rnd.IntN(partitions), Messages: []topic.Message{
				{Body: []byte(padded(fmt.Sprint(x.put), x.rnd.IntN(size)))},
			}})
			x.put++
		}
	case 3, 4: // none of them reads
		time.Sleep(time.Duration(x.rnd.Int64N(int64(3 * x.timeout))))
	case 5:
		r.hold(1 + x.rnd.IntN(30))
	case 6:
		r.SetReady([]int{0, 0, 1, 3, 50, 2500}[x.rnd.IntN(6)])
	case 7: // the session to a leader breaks, and a new one begins
		l := x.m.link("n1", meta.NodeID(fmt.Sprint("n", 2+x.rnd.IntN(2))))
		l.cut(true)
		time.Sleep(time.Duration(x.rnd.Int64N(int64(x.timeout))))
		l.cut(false)
	case 8: // it disconnects while it is stalled, and another connects
		r.StopDelivery()
		r.Close()
		x.readers = append(x.readers[:k], x.readers[k+1:]...)
		x.join()
	case 9:
		r.readFor(time.Duration(x.rnd.Int64N(int64(x.timeout))))
	}
}

// settle lets one client read everything, while the others do nothing.
func (x *stallRun) settle() {
	r := x.readers[x.rnd.IntN(len(x.readers))]
	r.SetReady(1 + x.rnd.IntN(10))
	bound := 4*x.timeout + 20*time.Second
	began := time.Now()
	for time.Since(began) < bound && x.finished() < uint64(x.put) {
		r.readFor(time.Second)
	}
	if n := x.finished(); n < uint64(x.put) {
		x.t.Errorf("%v after a client began to read, %d of %d messages are finished; message timeout %v, ended %v", bound, n, x.put, x.timeout, r.ended.Load())
		for _, far := range r.Sources.Load().Relays {
			x.t.Logf("relay to %s: %+v", far.Node, far.Claim())
		}
		for id, node := range x.m.nodes {
			x.t.Logf("at %s: %+v", id, node.channelStats("t", "c"))
		}
		x.t.Log(x.m.lines.String())
	}
}

// finished returns how many messages are finished at all leaders.
func (x *stallRun) finished() (n uint64) {
	for _, node := range x.m.nodes {
		n += node.finished("t", "c")
	}
	return n
}
