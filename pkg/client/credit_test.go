package client

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fewBrokers are brokers that deliver their messages as far as RDY allows, and record how many were
// in flight in all.
type fewBrokers struct {
	mu             sync.Mutex
	inFlight, most int
	commands       int
	waiting        map[string]int // messages by address
}

func (f *fewBrokers) play(t *testing.T, address string) func(peer) {
	return func(p peer) {
		p.greet(`{"max_rdy_count":2500,"msg_timeout":60000}`)
		p.expect("SUB t c\n")
		p.ok()
		ready, out := 0, 0
		for n := 0; ; {
			line := p.line()
			f.mu.Lock()
			f.commands++
			switch {
			case line == "":
				f.mu.Unlock()
				return
			case strings.HasPrefix(line, "RDY "):
				if _, err := fmt.Sscanf(line, "RDY %d", &ready); err != nil {
					t.Error(err)
				}
			case strings.HasPrefix(line, "FIN "):
				out--
				f.inFlight--
			case line == "CLS":
				p.send(0, "CLOSE_WAIT")
			}
			deliver := 0
			for out < ready && f.waiting[address] > 0 {
				out++
				f.inFlight++
				f.waiting[address]--
				deliver++
			}
			f.most = max(f.most, f.inFlight)
			f.mu.Unlock()
			for range deliver {
				n++
				p.message(fmt.Sprintf("%c%015x", address[0], n), address)
			}
		}
	}
}

func (f *fewBrokers) mostInFlight() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.most
}

// consumeFew calls use with a consumer of three brokers and a small in-flight limit.
func consumeFew(t *testing.T, few int, waiting map[string]int, use func(*testing.T, *fewBrokers, *Consumer)) {
	synctest.Test(t, func(t *testing.T) {
		b := &fewBrokers{waiting: waiting}
		scripts := map[string][]func(peer){}
		all := []string{"a:1", "b:1", "c:1"}
		for _, a := range all {
			scripts[a] = []func(peer){b.play(t, a)}
		}
		f := newFakeNet(t, scripts)
		c := f.client(all)
		x, err := c.Subscribe("t", "c", WithMaxInFlight(few))
		if err != nil {
			t.Fatal(err)
		}
		use(t, b, x)
		f.end(c)
	})
}

// If the in-flight limit is below the number of connections, a connection with messages gets its
// turn soon, whichever it is, and keeps it.
func TestSmallInFlightLimitFollowsMessages(t *testing.T) {
	for _, address := range []string{"a:1", "b:1", "c:1"} {
		consumeFew(t, 1, map[string]int{address: 20}, func(t *testing.T, b *fewBrokers, x *Consumer) {
			began, n := time.Now(), 0
			for m := range x.Messages(t.Context()) {
				if n++; n == 1 && time.Since(began) > 2*quickTurn {
					t.Errorf("%s: the first message came after %v", address, time.Since(began))
				}
				time.Sleep(time.Second / 10)
				_ = m.Finish()
				if n == 20 {
					break
				}
			}
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("%s: 20 messages of 100 ms each took %v", address, took)
			}
			if most := b.mostInFlight(); most > 1 {
				t.Errorf("%d messages in flight", most)
			}
		})
	}
}

// A consumer that lowers its limit with each message, to get at most three, waits for none of the
// three brokers that have one each.
func TestLastOfFewMessagesArrivesAtOnce(t *testing.T) {
	consumeFew(t, 3, map[string]int{"a:1": 1, "b:1": 1, "c:1": 1}, func(t *testing.T, _ *fewBrokers, x *Consumer) {
		synctest.Wait()
		began, left := time.Now(), 3
		for m := range x.Messages(t.Context()) {
			left--
			x.SetMaxInFlight(left)
			_ = m.Finish()
			if left == 0 {
				break
			}
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("took %v", took)
		}
	})
	// they become available later, one after another
	consumeFew(t, 3, map[string]int{}, func(t *testing.T, b *fewBrokers, x *Consumer) {
		synctest.Wait()
		for i, address := range []string{"b:1", "c:1", "a:1"} {
			b.mu.Lock()
			b.waiting[address]++
			b.mu.Unlock()
			began := time.Now()
			x.mu.Lock()
			for _, s := range x.credit.sources {
				s.conn.queue(command{name: cmdRDY, count: s.ready}) // the broker checks for messages
			}
			x.mu.Unlock()
			for m := range x.Messages(t.Context()) {
				x.SetMaxInFlight(2 - i)
				_ = m.Finish()
				break
			}
			if took := time.Since(began); took > 0 {
				t.Errorf("message %d of %s took %v", i, address, took)
			}
		}
	})
}

// While a message stays unanswered, its credit goes to no other connection. A timed-out message no
// longer counts.
func TestHeldMessageKeepsItsCredit(t *testing.T) {
	consumeFew(t, 1, map[string]int{"a:1": 1, "b:1": 1, "c:1": 1}, func(t *testing.T, b *fewBrokers, x *Consumer) {
		for m := range x.Messages(t.Context()) {
			time.Sleep(50 * time.Second)
			synctest.Wait()
			if most := b.mostInFlight(); most != 1 {
				t.Errorf("%d in flight, though one was held", most)
			}
			_ = m.Finish()
			break
		}
		began := time.Now()
		for m := range x.Messages(t.Context()) { // this one is never answered
			if took := time.Since(began); took > 0 {
				t.Errorf("the next came %v after the first was finished", took)
			}
			defer func() { _ = m.Finish() }()
			break
		}
		for m := range x.Messages(t.Context()) {
			if took := time.Since(began); took < time.Minute || took > 70*time.Second {
				t.Errorf("the third came %v after the second, whose timeout is 1m", took)
			}
			_ = m.Finish()
			break
		}
	})
}

// Every connection gets its turn although one always has messages, and an idle consumer sends
// little.
func TestConnectionsTakeTurns(t *testing.T) {
	consumeFew(t, 1, map[string]int{"a:1": 1000, "b:1": 1000, "c:1": 1000}, func(t *testing.T, b *fewBrokers, x *Consumer) {
		from, began := map[string]int{}, time.Now()
		for m := range x.Messages(t.Context()) {
			from[m.Node]++
			time.Sleep(100 * time.Millisecond)
			_ = m.Finish()
			if time.Since(began) > 30*time.Second {
				break
			}
		}
		for _, a := range []string{"a:1", "b:1", "c:1"} {
			if n := from[a]; n < 80 || n > 120 {
				t.Errorf("%d messages of %s, of 300 in all", n, a)
			}
		}
		if most := b.mostInFlight(); most > 2 { // a message may be in transit when the turn ends
			t.Errorf("%d messages in flight", most)
		}
	})
	consumeFew(t, 1, map[string]int{}, func(t *testing.T, b *fewBrokers, _ *Consumer) {
		time.Sleep(time.Minute)
		if b.mu.Lock(); b.commands > 700 {
			t.Errorf("an idle consumer sent %d commands within a minute", b.commands)
		}
		b.mu.Unlock()
	})
	consumeFew(t, 64, map[string]int{}, func(t *testing.T, b *fewBrokers, _ *Consumer) {
		time.Sleep(time.Minute)
		if b.mu.Lock(); b.commands > 50 {
			t.Errorf("an idle consumer with enough for all sent %d commands within a minute", b.commands)
		}
		b.mu.Unlock()
	})
}
