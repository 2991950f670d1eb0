package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
)

// firstByte returns the key of a test message; "-" means none.
func firstByte(m *Message) string { return strings.TrimPrefix(string(m.Body[:1]), "-") }

// TestMessagesOfAKeyAreHandledInOrder handles random messages with a random number of handlers,
// each for a random time.
func TestMessagesOfAKeyAreHandledInOrder(t *testing.T) {
	r := testrand.New(t)
	for range 20 {
		handlers, count, keys := 1+r.IntN(8), 1+r.IntN(200), 1+r.IntN(6)
		var bodies []string
		took := map[string]time.Duration{}
		for i := range count {
			body := fmt.Sprintf("%c%03d", "-abcdefgh"[r.IntN(keys+1)], i)
			bodies = append(bodies, body)
			took[body] = time.Duration(r.IntN(1000)) * time.Millisecond
		}
		synctest.Test(t, func(t *testing.T) {
			f := one(t, func(p peer) {
				p.subscribed(fmt.Sprintf("RDY %d\n", max(count, handlers)))
				for i, body := range bodies {
					p.message(fmt.Sprintf("%016d", i), body)
				}
				for finished := 0; finished < count; {
					switch line := p.line(); {
					case strings.HasPrefix(line, "FIN "):
						finished++
					case !strings.HasPrefix(line, "TOUCH "):
						t.Errorf("the broker got %q", line)
					}
				}
				p.expect("RDY 0\nCLS\n")
				p.send(0, "CLOSE_WAIT")
				p.drain()
			})
			c := f.client([]string{node})
			x, err := c.Subscribe("t", "c", WithMaxInFlight(count), WithConcurrency(handlers), WithKeyOrder(firstByte), WithAutoTouch())
			if err != nil {
				t.Fatal(err)
			}
			ctx, enough := context.WithCancel(t.Context())
			var mu sync.Mutex
			var running, most int
			busy, done := map[string]bool{}, map[string][]string{}
			left := count
			err = x.Run(ctx, func(_ context.Context, m *Message) error {
				key := firstByte(m)
				mu.Lock()
				if key != "" && busy[key] {
					t.Errorf("two handlers have messages of %s", key)
				}
				busy[key] = true
				running++
				most = max(most, running)
				mu.Unlock()
				time.Sleep(took[string(m.Body)])
				mu.Lock()
				defer mu.Unlock()
				busy[key] = false
				running--
				done[key] = append(done[key], string(m.Body))
				if left--; left == 0 {
					time.AfterFunc(time.Second, enough) // all have been answered
				}
				return nil
			})
			if err != nil || left != 0 || most > handlers {
				t.Errorf("%d of %d are left, %d at a time by %d handlers: %v", left, count, most, handlers, err)
			}
			for key, got := range done {
				if key != "" && !slices.IsSorted(got) {
					t.Errorf("key %s: %v", key, got)
				}
			}
			f.end(c)
		})
	}
}

// TestBusyKeyDelaysNoOther has one key with a slow handler, and two handlers.
func TestBusyKeyDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := one(t, func(p peer) {
			p.subscribed("RDY 64\n")
			for i, body := range []string{"a1", "a2", "b1", "c1", "-x"} {
				p.message(fmt.Sprintf("%016d", i), body)
			}
			p.drain()
		})
		c := f.client([]string{node})
		x, err := c.Subscribe("t", "c", WithConcurrency(2), WithKeyOrder(firstByte))
		if err != nil {
			t.Fatal(err)
		}
		ctx, enough := context.WithCancel(t.Context())
		var mu sync.Mutex
		var done []string
		_ = x.Run(ctx, func(_ context.Context, m *Message) error {
			if string(m.Body) == "a1" {
				time.Sleep(10 * time.Second)
			}
			mu.Lock()
			defer mu.Unlock()
			if done = append(done, string(m.Body)); len(done) == 5 {
				enough()
			}
			return nil
		})
		if want := []string{"b1", "c1", "-x", "a1", "a2"}; !slices.Equal(done, want) {
			t.Errorf("%v, want %v", done, want)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = c.Close(ctx)
		f.playing.Wait()
	})
}

// TestMessagesWaitingForKeyAreRequeuedAtClose ends Run while a message waits for another one of its
// key, and checks that a redelivered message is left alone.
func TestMessagesWaitingForKeyAreRequeuedAtClose(t *testing.T) {
	for name, tt := range map[string]struct {
		options []ConsumerOption
		took    time.Duration
		want    string
		handled int
	}{
		"at once":         {nil, time.Second, "FIN " + idA + "\nREQ " + idB + " 0\nREQ " + idC + " 0\n", 1},
		"after a timeout": {nil, time.Minute, "FIN " + idA + "\n", 1}, // the others may be in flight with the same ids
		"touched":         {[]ConsumerOption{WithAutoTouch()}, time.Minute, "REQ " + idC + " 0\n", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got strings.Builder
				f := one(t, func(p peer) {
					p.subscribed("RDY 64\n")
					for i, id := range []string{idA, idB, idC} {
						p.message(id, fmt.Sprint("a", i))
					}
					for line := p.line(); line != ""; line = p.line() {
						if line != "CLS" && !strings.HasPrefix(line, "RDY") {
							got.WriteString(line + "\n")
						}
						if line == "CLS" {
							p.send(0, "CLOSE_WAIT")
						}
					}
				})
				c := f.client([]string{node})
				x, err := c.Subscribe("t", "c", append(tt.options, WithConcurrency(3), WithKeyOrder(firstByte))...)
				if err != nil {
					t.Fatal(err)
				}
				ctx, enough := context.WithCancel(t.Context())
				handled := 0
				_ = x.Run(ctx, func(context.Context, *Message) error {
					handled++
					synctest.Wait() // the others wait
					time.Sleep(tt.took)
					enough()
					return nil
				})
				f.end(c)
				if handled != tt.handled || !strings.HasSuffix(got.String(), tt.want) || name == "touched" != strings.Contains(got.String(), "TOUCH "+idC) {
					t.Errorf("%d handled, the broker got %q, want %q", handled, got.String(), tt.want)
				}
			})
		})
	}
}

// TestKeyFunctionThatPanicsFailsItsMessage checks that the next message is handled.
func TestKeyFunctionThatPanicsFailsItsMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := one(t, func(p peer) {
			p.subscribed("RDY 64\n")
			p.message(idA, "bad")
			p.message(idB, "good")
			first, second := p.line(), p.line()
			if got := []string{first, second}; !slices.Contains(got, "REQ "+idA+" 2000") || !slices.Contains(got, "FIN "+idB) {
				t.Errorf("the broker got %q", got)
			}
			p.drain()
		})
		c := f.client([]string{node})
		x, err := c.Subscribe("t", "c", WithBackoff(0, 0), WithKeyOrder(func(m *Message) string {
			if string(m.Body) == "bad" {
				panic(errors.New("no key"))
			}
			return string(m.Body)
		}))
		if err != nil {
			t.Fatal(err)
		}
		ctx, enough := context.WithTimeout(t.Context(), time.Minute)
		defer enough()
		if err := x.Run(ctx, func(_ context.Context, m *Message) error {
			if string(m.Body) != "good" {
				t.Errorf("handled %q", m.Body)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = c.Close(ctx)
		f.playing.Wait()
	})
}

// TestInFlightLimitCanBeChanged checks that the ready count changes before the message is finished.
func TestInFlightLimitCanBeChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := one(t, func(p peer) {
			p.greet(`{"max_rdy_count":2500}`)
			p.expect("SUB t c\n")
			p.ok()
			p.expect("RDY 2\n")
			p.message(idA, "one")
			p.expect("RDY 1\nFIN " + idA + "\n")
			p.expect("RDY 0\n")
			p.expect("RDY 2\n") // 3 are more than it was created with
			p.expect("RDY 0\nCLS\n")
			p.send(0, "CLOSE_WAIT")
			p.drain()
		})
		c := f.client([]string{node})
		x, err := c.Subscribe("t", "c", WithMaxInFlight(2), WithTag("vip"))
		if err != nil {
			t.Fatal(err)
		}
		for m := range x.Messages(t.Context()) {
			x.SetMaxInFlight(1)
			_ = m.Finish()
			break
		}
		x.SetMaxInFlight(-1)
		x.SetMaxInFlight(3)
		f.end(c)
	})
}

// A hung handler does not accumulate messages that timed out at the broker and were redelivered.
func TestMessageLostBehindKeyIsHandledWithNext(t *testing.T) {
	l := newLanes()
	began := time.Now()
	add := func(at int, lost int) (gone []waiting) {
		return l.add(waiting{key: "a", arrived: began.Add(time.Duration(at))}, func(w waiting) bool { return w.arrived.Before(began.Add(time.Duration(lost))) })
	}
	for at := range 4 {
		if gone := add(at, 0); len(gone) > 0 {
			t.Errorf("%d were lost", len(gone))
		}
	}
	if gone := add(4, 3); len(gone) != 2 || !gone[0].arrived.Equal(began.Add(1)) || !gone[1].arrived.Equal(began.Add(2)) {
		t.Errorf("lost: %v", gone)
	}
	for _, at := range []time.Duration{0, 3, 4} { // the first one's handler hangs until the end
		w, ok := l.next()
		if !ok || !w.arrived.Equal(began.Add(at)) {
			t.Errorf("%v, not the message of %v", w.arrived.Sub(began), at)
		}
		l.release(w)
	}
}

// BenchmarkLanes measures the cost of order by key per message.
func BenchmarkLanes(b *testing.B) {
	l := newLanes()
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprint("customer-", i)
	}
	b.ReportAllocs()
	for b.Loop() {
		l.add(waiting{key: keys[rand.IntN(len(keys))]}, nil)
		w, _ := l.next()
		l.release(w)
	}
}

// A handler that ends its goroutine, as FailNow of a test does, fails its message: it is neither touched for
// ever, nor does it hold up its key.
func TestHandlerThatEndsItsGoroutineFailsItsMessage(t *testing.T) {
	for name, order := range map[string][]ConsumerOption{"one by one": nil, "by key": {WithKeyOrder(firstByte)}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := one(t, func(p peer) {
					p.subscribed("RDY 2\n")
					p.message("0000000000000001", "a")
					p.expect("REQ 0000000000000001 0\n")
					p.message("0000000000000002", "a")
					p.expect("FIN 0000000000000002\nRDY 0\nCLS\n")
					p.send(0, "CLOSE_WAIT")
					p.drain()
				})
				c := f.client([]string{node})
				options := []ConsumerOption{WithMaxInFlight(2), WithConcurrency(2), WithAutoTouch(), WithBackoff(0, 0), WithRequeueDelay(0, 0)}
				x, err := c.Subscribe("t", "c", append(options, order...)...)
				if err != nil {
					t.Fatal(err)
				}
				ctx, enough := context.WithTimeout(t.Context(), time.Hour)
				defer enough()
				handled := 0
				err = x.Run(ctx, func(context.Context, *Message) error {
					if handled++; handled == 1 {
						runtime.Goexit()
					}
					enough()
					return nil
				})
				if err != nil || handled != 2 {
					t.Errorf("%d handled, %v", handled, err)
				}
				f.end(c)
			})
		})
	}
}
