package relay

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/lease"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// rich is a leader with messages of one size without end. It answers each Fetch at once.
type rich struct {
	forward.Remote
	size int

	mu      sync.Mutex
	next    seq.MessageID
	fetches int
	unseen  int // messages that came back
}

func (l *rich) Call(context.Context, meta.NodeID, uint8, [][]byte) ([]byte, error) { return nil, nil }

func (l *rich) Go(_ meta.NodeID, kind uint8, payload [][]byte, done func([]byte, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var reply []byte
	switch kind {
	case forward.KindFetch:
		var m forward.Fetch
		_ = m.Decode(payload[0])
		l.fetches++
		reply = forward.AppendDeliveriesHead(nil, false)
		for d := (topic.Delivery{Body: make([]byte, l.size)}); len(reply) == 1 || len(reply)+forward.DeliverySize(&d) <= m.MaxBytes; {
			l.next++
			d.ID, d.Attempts = l.next, 1
			reply = forward.AppendDelivery(reply, &d)
		}
	case forward.KindAnswer:
		var m forward.Answers
		_ = m.Decode(payload[0])
		for _, a := range m.All {
			if a.Verb == forward.Unseen {
				l.unseen++
			}
		}
	}
	go done(reply, nil)
}

// from returns a relay of a client that has a lot of credit and takes nothing by itself.
func (l *rich) from(m *limit.Memory) *Relay {
	r := New(Options{Remote: l, Partitions: []int{0}, Memory: m, Running: lease.NewPulse(24*time.Hour, nil).Begin(), Timeout: time.Hour, MaxTimeout: time.Hour, FromRemote: func(err error) error { return err }, Events: Events{
		Wake: func() {}, Starved: func() {}, Freed: func() {}, Stalled: func(*Relay, int) {}, Ended: func(error) {},
		Unfinished: func(seq.MessageID, error) {},
	}})
	r.fetch()
	return r
}

// held returns what the queues of relays hold.
func held(all []*Relay) (bytes, some int) {
	for _, r := range all {
		r.mu.Lock()
		bytes += r.here.queue.bytes
		some += min(len(r.here.queue.all), 1)
		r.mu.Unlock()
	}
	return bytes, some
}

// Relays of clients that did not read held up to three messages of any size each, in no budget: a
// thousand such clients at a node that leads nothing ended it.
func TestRelaysKeepToTheMemoryBudget(t *testing.T) {
	const budget = 4 << 20
	for _, c := range []struct {
		name    string
		size    int
		clients int
		limit   int // bytes that all may hold
	}{
		{"small messages", 200, 50, budget/4 + 50*smallAnswer},
		{"large messages", 200 << 10, 100, budget / 4},
		{"messages that never fit", 3 << 19, 4, 3 << 19},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, m := &rich{size: c.size}, limit.NewMemory(budget)
				var deaf []*Relay
				for range c.clients {
					deaf = append(deaf, l.from(m))
				}
				time.Sleep(time.Minute)
				bytes, some := held(deaf)
				if bytes > c.limit {
					t.Errorf("%d relays hold %d bytes, want at most %d", some, bytes, c.limit)
				}
				if used := m.Usage().Uses[limit.Relays]; bytes < budget/8 || used < int64(min(bytes, budget/4)-c.clients*smallAnswer) {
					t.Errorf("the relays hold %d bytes, and %d are charged", bytes, used)
				}
				if l.fetches > 4*len(deaf) {
					t.Errorf("%d fetches, of which most were in vain", l.fetches)
				}
				for _, r := range deaf {
					r.Close(false)
				}
				synctest.Wait()
				if used := m.Usage().Used; used != 0 {
					t.Errorf("%d bytes are charged in the end", used)
				}
			})
		})
	}
}

// A client that reads gets messages beside any number that do not: small ones at once, and large
// ones when it is their turn.
func TestReaderIsServedBesideClientsThatDoNotRead(t *testing.T) {
	for _, size := range []int{200, 200 << 10} {
		synctest.Test(t, func(t *testing.T) {
			l, m := &rich{size: size}, limit.NewMemory(8<<20)
			var deaf []*Relay
			for range 50 {
				deaf = append(deaf, l.from(m))
			}
			synctest.Wait()
			r := l.from(m)
			got := 0
			read := func() {
				for range 100 {
					synctest.Wait()
					n, err := r.Take(time.Now(), 10, func(*topic.Delivery) error { return nil })
					if got += n; err != nil {
						t.Fatal(err)
					}
				}
			}
			if read(); size <= smallAnswer && got < 100 {
				t.Errorf("the reader got %d messages of %d bytes", got, size)
			}
			for _, d := range deaf {
				d.Close(false)
			}
			got = 0
			if read(); got < 100 {
				t.Errorf("the reader got %d messages of %d bytes after the others had left", got, size)
			}
			r.mu.Lock()
			short := r.here.room.wanted
			r.mu.Unlock()
			if short != 0 {
				t.Errorf("memory for %d bytes is still said to be short", short)
			}
			r.Close(false)
			synctest.Wait()
			if used := m.Usage().Used; used != 0 {
				t.Errorf("%d bytes are charged in the end", used)
			}
			time.Sleep(2 * spareFor)
		})
	}
}

// The memory of messages that were being delivered was returned meanwhile, and they came back to the
// queue without a charge.
func TestMessagesThatComeBackAreCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, m := &rich{size: 200 << 10}, limit.NewMemory(64<<20)
		r := l.from(m)
		synctest.Wait()
		full := errors.New("full")
		charged := m.Usage().Uses[limit.Relays]
		if n, err := r.Take(time.Now(), 10, func(*topic.Delivery) error {
			r.mu.Lock()
			r.here.room.settle(&r.here.queue) // as for an answer that arrives now
			r.mu.Unlock()
			return full
		}); n != 0 || !errors.Is(err, full) {
			t.Fatal(n, err)
		}
		if now := m.Usage().Uses[limit.Relays]; charged == 0 || now < charged {
			t.Errorf("%d bytes are charged after all messages came back, %d before", now, charged)
		}
		if n, err := r.Take(time.Now(), 10, func(*topic.Delivery) error { return nil }); n == 0 || err != nil {
			t.Fatal(n, err)
		}
		r.Close(false)
		synctest.Wait()
		if used := m.Usage().Used; used != 0 {
			t.Errorf("%d bytes are charged in the end", used)
		}
	})
}
