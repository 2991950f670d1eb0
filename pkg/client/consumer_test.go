package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func nilTLS() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} }

const (
	idA = "000000000000000a"
	idB = "000000000000000b"
	idC = "000000000000000c"
)

func TestConsumerClosesCleanly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handed := make(chan struct{})
		f := one(t, func(p peer) {
			p.subscribed("RDY 2\n")
			p.message(idA, "one")
			p.message(idB, "two")
			<-handed
			p.expect("RDY 0\n")
			p.expect("REQ " + idB + " 0\n")
			p.message(idC, "late")
			p.expect("REQ " + idC + " 0\n")
			p.expect("FIN " + idA + "\n")
			p.expect("CLS\n")
			p.send(0, "CLOSE_WAIT")
			p.drain()
		})
		c := f.client([]string{node})
		x, err := c.Subscribe("t", "c", WithMaxInFlight(2))
		if err != nil {
			t.Fatal(err)
		}
		for m := range x.Messages(t.Context()) {
			if string(m.Body) != "one" || m.Attempts != 2 || !m.Timestamp.Equal(time.Unix(1, 0)) || m.ID.String() != idA || m.Node != node {
				t.Errorf("%+v", m)
			}
			synctest.Wait() // the second one has arrived
			close(handed)
			go func() {
				time.Sleep(time.Second)
				if err := m.Finish(); err != nil {
					t.Error(err)
				}
				if err := m.Finish(); !errors.Is(err, ErrAnswered) {
					t.Errorf("finished twice: %v", err)
				}
				if err := m.Touch(); !errors.Is(err, ErrAnswered) {
					t.Errorf("touched after that: %v", err)
				}
			}()
			break
		}
		began := time.Now()
		if err := x.Close(t.Context()); err != nil || time.Since(began) != time.Second {
			t.Errorf("closed after %v, %v, want it to wait for the message in hand", time.Since(began), err)
		}
		for range x.Messages(t.Context()) {
			t.Error("a message after Close")
		}
		f.end(c)
	})
}

func TestCloseOfBusyConsumerEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := one(t, func(p peer) { p.subscribed("RDY 64\n"); p.message(idA, "one"); p.drain() })
		c := f.client([]string{node})
		x, err := c.Subscribe("t", "c")
		if err != nil {
			t.Fatal(err)
		}
		for m := range x.Messages(t.Context()) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := x.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v", err)
			}
			cancel()
			synctest.Wait()
			if err := m.Finish(); !errors.Is(err, ErrConnectionLost) {
				t.Errorf("finished without a connection: %v", err)
			}
			break
		}
		f.end(c)
	})
}

func TestConsumerReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := one(t,
			func(p peer) { p.subscribed("RDY 64\n"); p.message(idA, "lost") },
			func(p peer) {
				p.subscribed("RDY 64\n")
				p.message(idB, "found")
				p.expect("FIN " + idB + "\nRDY 0\nCLS\n")
				p.send(0, "CLOSE_WAIT")
				p.drain()
			})
		c := f.client([]string{node})
		x, err := c.Subscribe("t", "c")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // earlier messages are redelivered
		for m := range x.Messages(t.Context()) {
			if string(m.Body) != "found" {
				t.Errorf("got %q", m.Body)
			}
			_ = m.Finish()
			break
		}
		f.end(c)
	})
}

func TestPermanentRefusalEndsConsumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := one(t, func(p peer) { p.greet("OK"); p.expect("SUB t c\n"); p.fails("E_UNAUTHORIZED AUTH failed for SUB") })
		c := f.client([]string{node})
		x, err := c.Subscribe("t", "c")
		if err != nil {
			t.Fatal(err)
		}
		err = x.Run(t.Context(), func(context.Context, *Message) error { return nil })
		if said, ok := errors.AsType[*ServerError](err); !ok || said.Code != "E_UNAUTHORIZED" {
			t.Errorf("%v", err)
		}
		f.end(c)
	})
}

// TestConsumerBacksOff checks by the ready counts that the consumer pauses, tries one message, and
// continues.
func TestConsumerBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		began := time.Now()
		f := one(t, func(p peer) {
			p.subscribed("RDY 64\n")
			p.message(idA, "bad")
			p.expect("REQ " + idA + " 2000\n") // its second attempt
			for _, want := range []string{"RDY 0\n", "RDY 1\n"} {
				p.expect(want)
				at = append(at, time.Since(began))
			}
			p.message(idB, "good")
			p.expect("FIN " + idB + "\n")
			p.expect("RDY 64\n")
			at = append(at, time.Since(began))
			p.drain()
		})
		var paused []time.Duration
		c := f.client([]string{node}, WithHooks(Hooks{BackedOff: func(_, _ string, d time.Duration) { paused = append(paused, d) }}))
		x, err := c.Subscribe("t", "c", WithBackoff(10*time.Second, time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_ = x.Run(t.Context(), func(_ context.Context, m *Message) error {
				if string(m.Body) == "bad" {
					return errors.New("bad")
				}
				return nil
			})
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(at) != 3 || len(paused) != 1 || paused[0] < 5*time.Second || paused[0] > 10*time.Second || at[1] != paused[0] || at[2] != at[1] {
			t.Errorf("paused for %v, ready counts at %v", paused, at)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = c.Close(ctx) // the broker does not close cleanly
		f.playing.Wait()
	})
}

func TestMessagesOfSlowHandlersAreTouched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := one(t, func(p peer) {
			p.subscribed("RDY 64\n")
			p.message(idA, "slow")
			p.expect("TOUCH " + idA + "\nTOUCH " + idA + "\nFIN " + idA + "\n")
			p.drain()
		})
		c := f.client([]string{node}, WithHeartbeat(time.Minute))
		x, err := c.Subscribe("t", "c", WithAutoTouch())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if err := x.Run(ctx, func(context.Context, *Message) error { time.Sleep(70 * time.Second); cancel(); return nil }); err != nil {
			t.Error(err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = c.Close(ctx)
		f.playing.Wait()
	})
}

func TestSharesDivideInFlightLimit(t *testing.T) {
	for _, tt := range []struct {
		all  int
		held []int
		want []int
	}{
		{10, nil, []int{}},
		{10, []int{3}, []int{10}},
		{10, []int{0, 9, 9}, []int{4, 3, 3}},
		{2, []int{0, 0, 0}, []int{1, 1, 0}},
		{2, []int{0, 1, 0}, []int{1, 1, 0}},
		{2, []int{0, 0, 1}, []int{1, 0, 0}},
		{2, []int{0, 1, 1}, []int{0, 1, 0}},
		{2, []int{0, 0, 2}, []int{0, 0, 0}},
		{2, []int{3, 0, 0}, []int{0, 0, 0}},
		{2, []int{2, 0, 0}, []int{1, 0, 0}},
		{0, []int{0, 0}, []int{0, 0}},
	} {
		if got := shares(tt.all, tt.held); !slices.Equal(got, tt.want) {
			t.Errorf("%d for those that hold %d: %v, want %v", tt.all, tt.held, got, tt.want)
		}
	}
}

func TestThrottlePausesLongerWithEachFailure(t *testing.T) {
	now := time.Unix(0, 0)
	th := throttle{least: time.Second, most: 3 * time.Second}
	step := func(what string, got, want time.Duration, f flow) {
		t.Helper()
		if got != want || th.flow(now) != f {
			t.Errorf("%s: pause %v, flow %d, want %v, %d", what, got, th.flow(now), want, f)
		}
	}
	step("success at rest", th.succeeded(now, 0), 0, flowAll)
	step("failure", th.failed(now, 0), time.Second, flowNone)
	step("another at once", th.failed(now, 0), 0, flowNone)
	step("success of what was in flight", th.succeeded(now, 0), 0, flowNone)
	now = now.Add(time.Second)
	step("failure of the one", th.failed(now, 0), 2*time.Second, flowNone)
	now = now.Add(2 * time.Second)
	step("failure again, jittered", th.failed(now, 1), 1500*time.Millisecond, flowNone)
	now = now.Add(3 * time.Second)
	step("success of the one", th.succeeded(now, 0), 2*time.Second, flowNone)
	now = now.Add(2 * time.Second)
	step("success again", th.succeeded(now, 0), time.Second, flowNone)
	now = now.Add(time.Second)
	if th.flow(now) != flowOne {
		t.Error("not one at a time after the pause")
	}
	step("the last success", th.succeeded(now, 0), 0, flowAll)
	off := throttle{}
	if off.failed(now, 0) != 0 || off.flow(now) != flowAll {
		t.Error("a throttle that is off pauses")
	}
}

func TestPausesGrowWithJitter(t *testing.T) {
	cfg := &config{minReconnect: 100 * time.Millisecond, maxReconnect: time.Second}
	for failures, want := range map[int]time.Duration{1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 4: 800 * time.Millisecond, 5: time.Second, 90: time.Second} {
		if got := pause(cfg, failures, 0); got != want {
			t.Errorf("after %d failures %v, want %v", failures, got, want)
		}
		if got := pause(cfg, failures, 1); got != want/2 {
			t.Errorf("after %d failures %v at the least, want %v", failures, got, want/2)
		}
	}
	for failures, want := range map[int]time.Duration{0: 0, 1: 0, 2: firstRetry, 3: 2 * firstRetry, 60: lastRetry} {
		if got := backoff(failures, 0); got != want {
			t.Errorf("attempt after %d failures: %v, want %v", failures, got, want)
		}
	}
	x := &consumerConfig{minRequeue: time.Second, maxRequeue: 5 * time.Second}
	for attempts, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 4: 5 * time.Second, 4000: 5 * time.Second} {
		if got := x.requeueDelay(attempts); got != want {
			t.Errorf("after %d attempts %v, want %v", attempts, got, want)
		}
	}
	x.maxRequeue = math.MaxInt64
	if got := x.requeueDelay(4000); got != math.MaxInt64 {
		t.Errorf("without a maximum %v", got)
	}
}

func TestConsumerReportsInvalidOptions(t *testing.T) {
	c, err := New([]string{node})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		topic, channel string
		option         ConsumerOption
	}{
		"topic":       {"a b", "c", WithMaxInFlight(1)},
		"channel":     {"t", "", WithMaxInFlight(1)},
		"in flight":   {"t", "c", WithMaxInFlight(-1)},
		"concurrency": {"t", "c", WithConcurrency(0)},
		"sample rate": {"t", "c", WithSampleRate(100)},
		"backoff":     {"t", "c", WithBackoff(2, 1)},
		"requeue":     {"t", "c", WithRequeueDelay(-1, 1)},
	} {
		if _, err := c.Subscribe(tt.topic, tt.channel, tt.option); err == nil && name != "in flight" {
			t.Errorf("%s: taken", name)
		}
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := c.Subscribe("t", "c"); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestPublishesGoToTheLeadersThatALookupNames queries nsqlookupd's interface, and again after a
// hint.
func TestPublishesGoToTheLeadersThatALookupNames(t *testing.T) {
	leader := "a"
	lookup := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/nodes" {
			fmt.Fprint(w, `{"producers":[{"broadcast_address":"a","tcp_port":1},{"broadcast_address":"b","tcp_port":1}]}`)
			return
		}
		if r.URL.String() != "/lookup?topic=t" {
			t.Errorf("asked for %s", r.URL)
		}
		fmt.Fprintf(w, `{"channels":[],"producers":[{"broadcast_address":%q,"tcp_port":1}]}`, leader)
	}))
	defer lookup.Close()
	took := make(chan string, 10)
	serve := func(name string, n int) func(peer) {
		return func(p peer) {
			p.greet("OK")
			for range n {
				if p.line() == "" {
					return
				}
				took <- name
				p.body()
				p.ok()
			}
		}
	}
	f := newFakeNet(t, map[string][]func(peer){"a:1": {serve("a", 2)}, "b:1": {serve("b", 99)}})
	c := f.client([]string{"http://broken.invalid", lookup.URL}, WithHTTPClient(lookup.Client()), WithReconnect(time.Hour, time.Hour))
	for i, want := range []string{"a", "a", "b", "b"} {
		if i == 2 {
			leader = "b" // a is gone
			for f.livesAt(c, "a:1") {
				time.Sleep(0)
			}
		}
		if err := c.Publish(t.Context(), "t", []byte("x")); err != nil {
			t.Fatal(err)
		}
		if got := <-took; got != want {
			t.Errorf("publish %d went to %s, want %s", i, got, want)
		}
	}
	lookup.Client().CloseIdleConnections()
	f.end(c)
}

func (f *fakeNet) livesAt(c *Client, address string) bool {
	c.router.mu.RLock()
	defer c.router.mu.RUnlock()
	return c.router.links[address].live() != nil
}

func TestInvalidLookupAnswerIsReported(t *testing.T) {
	lookup := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.URL.RawQuery, "missing"):
			w.WriteHeader(http.StatusNotFound)
		case strings.Contains(r.URL.RawQuery, "broken"):
			w.WriteHeader(http.StatusInternalServerError)
		default:
			fmt.Fprint(w, "hello")
		}
	}))
	defer lookup.Close()
	l := &lookups{cfg: &config{lookups: []string{lookup.URL}, http: lookup.Client()}}
	if found, err := l.producers(t.Context(), "missing"); err != nil || len(found) > 0 {
		t.Errorf("a topic that nobody has: %v, %v", found, err)
	}
	for _, topic := range []string{"broken", "nonsense"} {
		if _, err := l.producers(t.Context(), topic); err == nil || !strings.Contains(err.Error(), lookup.URL) {
			t.Errorf("%s: %v", topic, err)
		}
	}
}

// TestUnusedTopicsAreForgotten runs the cleanup of the routes twice.
func TestUnusedTopicsAreForgotten(t *testing.T) {
	c, err := New([]string{"http://broker.invalid"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(t.Context()) }()
	r, now := c.router, time.Now()
	for _, topic := range []string{"idle", "busy"} {
		if !r.claim(topic, now) || r.claim(topic, now) {
			t.Errorf("%s is not asked for once", topic)
		}
		r.topic[topic].asking, r.topic[topic].until = false, now.Add(time.Hour)
	}
	r.live("busy")
	if got := r.used(); !slices.Equal(got, []string{"busy"}) {
		t.Errorf("asked again for %q, want what was published to", got)
	}
	if r.topic["idle"] != nil || r.topic["busy"] == nil {
		t.Error("what is idle was kept, or what is busy was not")
	}
	if r.claim("busy", now) {
		t.Error("asked for again at once")
	}
	r.topic["busy"].asked = now
	r.hint("busy")
	if r.claim("busy", now) || !r.claim("busy", now.Add(hintPause)) {
		t.Error("a hint does not count after a moment")
	}
}

// Messages that have arrived are for the next loop once the context of this one has ended.
func TestNoMessageIsTakenAfterTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 32
		f := one(t, func(p peer) {
			p.subscribed("RDY 64\n")
			for i := range n {
				p.message(fmt.Sprintf("%016x", i), "x")
			}
			p.drain()
		})
		c := f.client([]string{node})
		x, err := c.Subscribe("t", "c")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for range n {
			for m := range x.Messages(ended) {
				t.Errorf("took %s", m.ID)
				_ = m.Requeue(0)
			}
		}
		end, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		_ = c.Close(end) // the broker does not answer CLS
		f.playing.Wait()
	})
}
