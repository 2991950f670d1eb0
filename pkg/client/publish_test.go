package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestCommandsMatchProtocol(t *testing.T) {
	id := messageID([]byte("0123456789abcdef"))
	for want, got := range map[string][]byte{
		"PUB t\n\x00\x00\x00\x02hi":       appendPublish(nil, &call{out: Outgoing{Topic: "t", Body: []byte("hi")}}),
		"PUB t 0\n\x00\x00\x00\x02hi":     appendPublish(nil, &call{out: Outgoing{Topic: "t", Body: []byte("hi"), Partition: InPartition(0)}}),
		"DPUB t 1500\n\x00\x00\x00\x02hi": appendPublish(nil, &call{out: Outgoing{Topic: "t", Body: []byte("hi"), Delay: 1500 * time.Millisecond}}),
		"DPUB t 1 3\n\x00\x00\x00\x02hi":  appendPublish(nil, &call{out: Outgoing{Topic: "t", Body: []byte("hi"), Delay: 1, Partition: InPartition(3)}}),
		"MPUB t\n\x00\x00\x00\x0f\x00\x00\x00\x02\x00\x00\x00\x01a\x00\x00\x00\x02bc": appendPublish(nil, &call{out: Outgoing{Topic: "t", Bodies: [][]byte{[]byte("a"), []byte("bc")}}}),
		"RDY 5\n":                              command{name: cmdRDY, count: 5}.appendTo(nil),
		"FIN 0123456789abcdef\n":               command{name: cmdFIN, id: id}.appendTo(nil),
		"TOUCH 0123456789abcdef\n":             command{name: cmdTOUCH, id: id}.appendTo(nil),
		"REQ 0123456789abcdef 0\n":             command{name: cmdREQ, id: id}.appendTo(nil),
		"REQ 0123456789abcdef 9223372036855\n": command{name: cmdREQ, id: id, delay: math.MaxInt64}.appendTo(nil),
		"REQ 0123456789abcdef 250\n":           command{name: cmdREQ, id: id, delay: 250 * time.Millisecond}.appendTo(nil),
		"CLS\n":                                command{name: cmdCLS}.appendTo(nil),
		"NOP\n":                                command{name: cmdNOP}.appendTo(nil),
	} {
		if string(got) != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestIdentifyRequestsConfiguredFeatures(t *testing.T) {
	cfg, err := configure([]string{node}, []Option{WithClientID("me"), WithUserAgent("test/1"), WithHeartbeat(2 * time.Second), WithDeflate(3)})
	if err != nil {
		t.Fatal(err)
	}
	cfg.hostname = "host"
	want := "IDENTIFY\n\x00\x00\x00\x9d" + `{"client_id":"me","hostname":"host","user_agent":"test/1","feature_negotiation":true,"heartbeat_interval":2000,"msg_timeout":1000,"deflate":true,"deflate_level":3}`
	got := appendIdentify(nil, identify{
		ClientID: cfg.clientID, Hostname: cfg.hostname, UserAgent: cfg.userAgent, FeatureNegotiation: true,
		HeartbeatInterval: cfg.heartbeat.Milliseconds(), MsgTimeout: 1000, Deflate: cfg.compression == deflateStream, DeflateLevel: levelOf(cfg),
	})
	if want = want[:9] + string([]byte{0, 0, 0, byte(len(want) - 13)}) + want[13:]; string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestPublishesArePipelined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := one(t, func(p peer) {
			p.greet("OK")
			for _, body := range []string{"a", "b", "c"} {
				p.expect("PUB t\n")
				if got := p.body(); got != body {
					p.t.Errorf("got %q, want %q", got, body)
				}
			}
			p.ok()
			p.send(0, "_heartbeat_")
			p.expect("NOP\n")
			p.fails("E_PUB_FAILED PUB failed, outcome unknown: disk")
			p.ok()
			p.drain()
		})
		c := f.client([]string{node})
		outcomes := make([]error, 3)
		var ended sync.WaitGroup
		for i, body := range []string{"a", "b", "c"} {
			ended.Add(1)
			if err := c.PublishAsync(t.Context(), "t", []byte(body), func(err error) { outcomes[i] = err; ended.Done() }); err != nil {
				t.Fatal(err)
			}
		}
		ended.Wait()
		if outcomes[0] != nil || outcomes[2] != nil {
			t.Errorf("outcomes %v", outcomes)
		}
		said, ok := errors.AsType[*ServerError](outcomes[1])
		if !ok || said.Code != "E_PUB_FAILED" || !errors.Is(outcomes[1], ErrUncertain) || errors.Is(outcomes[1], ErrRefused) {
			t.Errorf("outcome %v", outcomes[1])
		}
		if want := "publish message to t: outcome unknown: E_PUB_FAILED PUB failed, outcome unknown: disk"; outcomes[1].Error() != want {
			t.Errorf("%q, want %q", outcomes[1], want)
		}
		f.end(c)
	})
}

func TestTemporaryRefusalIsRetriedUntilTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		f := one(t, func(p peer) {
			p.greet("OK")
			for p.line() != "" {
				p.body()
				if tries++; tries == 5 {
					p.ok()
					continue
				}
				p.fails("E_PUB_FAILED PUB failed, refused: not enough in-sync replicas")
			}
		})
		var retried int
		c := f.client([]string{node}, WithPublishTimeout(10*time.Second), WithHooks(Hooks{Retried: func(string, error) { retried++ }}))
		if err := c.Publish(t.Context(), "t", []byte("x")); err != nil || retried != 4 {
			t.Errorf("%v after %d retries, want success after 4", err, retried)
		}
		began := time.Now()
		err := c.Publish(t.Context(), "t", []byte("x"))
		if took := time.Since(began); !errors.Is(err, ErrRefused) || took < 8*time.Second || took > 10*time.Second {
			t.Errorf("%v after %v, want it refused after about 10 s", err, took)
		}
		f.end(c)
	})
}

func TestUncertainPublishIsNotSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := one(t, func(p peer) {
			p.greet("OK")
			p.expect("PUB t\n")
			p.body()
		}, func(p peer) {
			p.greet("OK")
			p.drain()
		})
		c := f.client([]string{node})
		err := c.Publish(t.Context(), "t", []byte("x"))
		failure, ok := errors.AsType[*PublishError](err)
		if !ok || !errors.Is(err, ErrUncertain) || !errors.Is(err, ErrConnectionLost) || failure.Attempts != 1 {
			t.Errorf("%v, want it uncertain after one attempt", err)
		}
		f.end(c)
	})
}

// TestUncertainAttemptStaysUncertain loses the connection after a publish with an id, and then
// finds no broker.
func TestUncertainAttemptStaysUncertain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := one(t, func(p peer) { p.greet("OK"); p.line(); p.body() })
		c := f.client([]string{node}, WithDedup(), WithPublishTimeout(3*time.Second))
		if err := c.Publish(t.Context(), "t", []byte("x")); !errors.Is(err, ErrUncertain) || errors.Is(err, ErrRefused) || !errors.Is(err, ErrUnreachable) {
			t.Errorf("%v", err)
		}
		f.end(c)
	})
}

func TestUnsentPublishGoesToNextConnection(t *testing.T) {
	cn := &conn{wake: make(chan struct{}, 1)} // nothing is written
	cn.mu.Lock()
	sent, unsent := new(call), new(call)
	cn.mu.Unlock()
	if !cn.publish(sent) {
		t.Fatal("not taken")
	}
	cn.calls.markSent()
	if !cn.publish(unsent) {
		t.Fatal("not taken")
	}
	cn.err = errors.New("lost")
	o := &recorder{outcome: map[*call]error{}}
	cn.owner = o
	cn.giveBack()
	if v := judge(o.outcome[sent]); v.refused {
		t.Errorf("sent: %v", o.outcome[sent])
	}
	if v := judge(o.outcome[unsent]); !v.refused || !v.again {
		t.Errorf("unsent: %v", o.outcome[unsent])
	}
	if cn.publish(new(call)) {
		t.Error("a connection that has ended took a call")
	}
}

// recorder is an owner that records the outcomes of calls.
type recorder struct{ outcome map[*call]error }

func (r *recorder) ended(c *call, err error) { r.outcome[c] = err }
func (r *recorder) received(*conn, *Message) {}
func (r *recorder) complained(*conn, error)  {}

func TestNothingIsExecutedAfterFatalError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var second []string
		f := one(t, func(p peer) {
			p.greet("OK")
			for range 2 {
				p.line()
				p.body()
			}
			p.fails("E_BAD_MESSAGE PUB message too big 5 > 4")
		}, func(p peer) {
			p.greet("OK")
			for p.line() != "" {
				second = append(second, p.body())
				p.ok()
			}
		})
		c := f.client([]string{node})
		outcomes := make(chan error, 2)
		for _, body := range []string{"large", "b"} {
			if err := c.PublishAsync(t.Context(), "t", []byte(body), func(err error) { outcomes <- err }); err != nil {
				t.Fatal(err)
			}
		}
		if first := <-outcomes; !errors.Is(first, ErrRefused) {
			t.Errorf("the large one: %v, want it refused", first)
		}
		if other := <-outcomes; other != nil {
			t.Errorf("the one behind it: %v", other)
		}
		f.end(c)
		if !slices.Equal(second, []string{"b"}) {
			t.Errorf("sent again: %q", second)
		}
	})
}

func TestContextEndsPublishWithItsOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := one(t, func(p peer) { p.greet("OK"); p.drain() })
		c := f.client([]string{node}, WithReconnect(time.Hour, time.Hour))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Publish(ctx, "t", []byte("x")); !errors.Is(err, ErrUncertain) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("sent and not answered: %v", err)
		}
		if err := c.Publish(ctx, "t", []byte("x")); !errors.Is(err, ErrRefused) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("begun after the end of its context: %v", err)
		}
		nobody := newFakeNet(t, nil)
		lonely := nobody.client([]string{"nobody:1"})
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := lonely.Publish(ctx, "t", []byte("x")); !errors.Is(err, ErrRefused) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("never sent: %v", err)
		}
		nobody.end(lonely)
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("closed with an unanswered publish: %v", err)
		}
		f.playing.Wait()
		if err := c.Publish(t.Context(), "t", []byte("x")); !errors.Is(err, ErrClosed) || !errors.Is(err, ErrRefused) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// narrowConn is a connection whose long writes fail, as when the other end has closed it.
type narrowConn struct{ net.Conn }

// Write implements net.Conn.
func (c narrowConn) Write(p []byte) (int, error) {
	if len(p) > 1000 {
		return 0, syscall.EPIPE
	}
	return c.Conn.Write(p)
}

// A broker may refuse a message by its size, and close the connection without reading the body: what it said is
// read although the write has failed.
func TestErrorBeforeTheEndOfABodyIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := one(t, func(p peer) {
			p.greet("OK")
			time.Sleep(10 * time.Millisecond)
			p.fails("E_BAD_MESSAGE PUB message too big")
		})
		c := f.client([]string{node}, WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			nc, err := f.dial(ctx, network, address)
			return narrowConn{nc}, err
		}))
		var said *ServerError
		if err := c.Publish(t.Context(), "t", make([]byte, 2000)); !errors.As(err, &said) || !errors.Is(err, ErrRefused) {
			t.Errorf("%v", err)
		}
		f.end(c)
	})
}

func TestUnreachableBrokersAreRefusedAndNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeNet(t, nil)
		c := f.client([]string{"a:1", "b:2"}, WithPublishTimeout(3*time.Second))
		err := c.Publish(t.Context(), "t", []byte("x"))
		if !errors.Is(err, ErrUnreachable) || !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "connect to a:1: ") || !strings.Contains(err.Error(), "connect to b:2: ") {
			t.Errorf("%v", err)
		}
		f.end(c)
	})
}

// TestFailingNodesAreAvoidedForAWhile counts the connection attempts within a minute.
func TestFailingNodesAreAvoidedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeNet(t, nil)
		c := f.client([]string{node}, WithPublishTimeout(time.Minute), WithReconnect(100*time.Millisecond, 5*time.Second))
		if err := c.Publish(t.Context(), "t", []byte("x")); !errors.Is(err, ErrUnreachable) {
			t.Error(err)
		}
		if n := len(f.dials); n < 10 || n > 40 {
			t.Errorf("%d attempts to connect in a minute", n)
		}
		f.end(c)
	})
}

func TestSilentBrokerIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeNet(t, map[string][]func(peer){node: {
			func(p peer) { p.greet("OK"); p.line(); p.body(); p.ok(); p.drain() },
			func(p peer) { p.greet("OK"); p.line(); p.body(); p.ok(); p.drain() },
		}})
		lost := make(chan error, 9)
		c := f.client([]string{node}, WithHeartbeat(10*time.Second), WithHooks(Hooks{Disconnected: func(_ string, err error) { lost <- err }}))
		if err := c.Publish(t.Context(), "t", []byte("x")); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := <-lost; !errors.Is(err, ErrStalled) || time.Since(began) != 20*time.Second {
			t.Errorf("%v after %v, want it stalled after two heartbeats", err, time.Since(began))
		}
		if err := c.Publish(t.Context(), "t", []byte("x")); err != nil {
			t.Errorf("the next one: %v", err)
		}
		f.end(c)
	})
}

func TestBytesInFlightAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		f := one(t, func(p peer) {
			p.greet("OK")
			for n := 0; p.line() != ""; n++ {
				p.body()
				if n == 1 {
					<-release
					p.ok()
				}
				if n > 0 {
					p.ok()
				}
			}
		})
		c := f.client([]string{node}, WithMaxInFlightBytes(2*(callOverhead+10)))
		body, ended := make([]byte, 10), make(chan error, 3)
		for range 2 {
			if err := c.PublishAsync(t.Context(), "t", body, func(err error) { ended <- err }); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.PublishAsync(ctx, "t", body, nil); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrRefused) {
			t.Errorf("a third one: %v, want it to wait until its context ends", err)
		}
		go func() { time.Sleep(time.Second); close(release) }()
		if err := c.PublishAsync(t.Context(), "t", body, func(err error) { ended <- err }); err != nil {
			t.Errorf("a third one that waits: %v", err)
		}
		for range 3 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if err := c.Publish(t.Context(), "t", make([]byte, 1000)); !errors.Is(err, ErrRefused) {
			t.Errorf("one that never fits: %v", err)
		}
		f.end(c)
	})
}

func TestInvalidPublishesAreRefusedByClient(t *testing.T) {
	c, err := New([]string{node})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(t.Context()) }()
	for name, err := range map[string]error{
		"a topic with a space": c.Publish(t.Context(), "a b", []byte("x")),
		"no topic":             c.Publish(t.Context(), "", []byte("x")),
		"a long topic":         c.Publish(t.Context(), strings.Repeat("x", 65), []byte("x")),
		"a line in a topic":    c.Publish(t.Context(), "a\nb", []byte("x")),
		"an empty message":     c.Publish(t.Context(), "t", nil),
		"one in a batch":       c.PublishBatch(t.Context(), "t", [][]byte{[]byte("x"), nil}),
		"a delayed batch":      c.Send(t.Context(), Outgoing{Topic: "t", Bodies: [][]byte{{1}}, Delay: 1}),
		"a batch and a body":   c.Send(t.Context(), Outgoing{Topic: "t", Bodies: [][]byte{{1}}, Body: []byte("x")}),
		"a delay below 0":      c.Send(t.Context(), Outgoing{Topic: "t", Body: []byte("x"), Delay: -1}),
	} {
		if !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := c.PublishBatch(t.Context(), "t", nil); err != nil {
		t.Errorf("a batch of nothing: %v", err)
	}
}

func TestErrorsReportWhetherToRetry(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want verdict
	}{
		{&ServerError{"E_PUB_FAILED", "PUB failed, refused: busy"}, verdict{refused: true, again: true}},
		{&ServerError{"E_MPUB_FAILED", "MPUB failed, refused: busy"}, verdict{refused: true, again: true}},
		{&ServerError{"E_DPUB_FAILED", "DPUB failed, outcome unknown: x"}, verdict{again: true}},
		{&ServerError{"E_PUB_FAILED", "PUB failed disk full"}, verdict{again: true}}, // nsqd does not report it
		{&ServerError{"E_FAILED_ON_NOT_LEADER", ""}, verdict{refused: true, again: true}},
		{&ServerError{"E_BAD_TOPIC", "x"}, verdict{refused: true}},
		{&ServerError{"E_UNAUTHORIZED", "x"}, verdict{refused: true}},
		{fmt.Errorf("x: %w", errUnsent), verdict{refused: true, again: true}},
		{ErrConnectionLost, verdict{again: true}},
		{notReachable(nil), verdict{refused: true, again: true}},
	} {
		if got := judge(tt.err); got != tt.want {
			t.Errorf("%v: %+v, want %+v", tt.err, got, tt.want)
		}
	}
}

func TestFailedConnectionReportsReason(t *testing.T) {
	for name, tt := range map[string]struct {
		script  func(peer)
		options []Option
		want    string
	}{
		"an HTTP server": {func(p peer) {
			p.expect("  V2IDENTIFY\n")
			p.body()
			_, _ = p.nc.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		}, nil, "this is an HTTP address"},
		"refused":   {func(p peer) { p.expect("  V2IDENTIFY\n"); p.body(); p.fails("E_BAD_BODY x") }, nil, "E_BAD_BODY x"},
		"no JSON":   {func(p peer) { p.greet("{") }, nil, "not an NSQ endpoint"},
		"no TLS":    {func(p peer) { p.greet("{}") }, []Option{WithTLS(nilTLS())}, "does not offer TLS"},
		"no secret": {func(p peer) { p.greet(`{"auth_required":true}`) }, nil, "requires AUTH"},
		"a wrong secret": {func(p peer) {
			p.greet(`{"auth_required":true}`)
			p.expect("AUTH\n")
			if got := p.body(); got != "open" {
				p.t.Errorf("secret %q", got)
			}
			p.fails("E_UNAUTHORIZED AUTH no authorizations found")
		}, []Option{WithSecret("open")}, "E_UNAUTHORIZED"},
		"silence": {func(p peer) { p.drain() }, []Option{WithDialTimeout(time.Second)}, "deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := one(t, tt.script)
				c := f.client([]string{node}, append(tt.options, WithPublishTimeout(3*time.Second), WithReconnect(time.Minute, time.Minute))...)
				err := c.Publish(t.Context(), "t", []byte("x"))
				if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%v, want %q", err, tt.want)
				}
				f.end(c)
			})
		})
	}
}

func TestInvalidAnswerClosesConnection(t *testing.T) {
	for name, tt := range map[string]struct {
		script func(peer)
		want   error
	}{
		"a response to nothing":     {func(p peer) { p.ok() }, ErrProtocol},
		"a message":                 {func(p peer) { p.message("0123456789abcdef", "x") }, ErrProtocol},
		"a short message":           {func(p peer) { p.send(2, "x") }, ErrProtocol},
		"a frame of no known type":  {func(p peer) { p.send(7, "x") }, ErrProtocol},
		"a frame that is too large": {func(p peer) { _, _ = p.nc.Write([]byte{0xff, 0, 0, 0, 0, 0, 0, 0}) }, ErrProtocol},
		"its end":                   {func(peer) {}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := one(t, func(p peer) { p.greet("OK"); p.line(); p.body(); p.ok(); tt.script(p) })
				lost := make(chan error, 1)
				c := f.client([]string{node}, WithHooks(Hooks{Disconnected: func(_ string, err error) { lost <- err }}))
				if err := c.Publish(t.Context(), "t", []byte("x")); err != nil {
					t.Fatal(err)
				}
				if err := <-lost; err == nil || tt.want != nil && !errors.Is(err, tt.want) {
					t.Errorf("%v, want %v", err, tt.want)
				}
				f.end(c)
			})
		})
	}
}

func TestHooksReportEachPublish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := one(t, func(p peer) {
			p.greet("OK")
			for p.line() != "" {
				p.body()
				time.Sleep(time.Second)
				p.ok()
			}
		})
		var told []string
		c := f.client([]string{node}, WithHooks(Hooks{
			Connected:    func(a string) { told = append(told, "connected "+a) },
			Disconnected: func(a string, err error) { told = append(told, fmt.Sprint("disconnected ", a, " ", err)) },
			Published: func(topic string, n int, took time.Duration, err error) {
				told = append(told, fmt.Sprint("published ", topic, " ", n, " ", took, " ", err))
			},
		}))
		if err := c.PublishBatch(t.Context(), "t", [][]byte{{1}, {2}}); err != nil {
			t.Fatal(err)
		}
		f.end(c)
		if want := []string{"connected " + node, "published t 2 1s <nil>", "disconnected " + node + " <nil>"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}

func TestClientReportsInvalidOptions(t *testing.T) {
	for name, err := range map[string]error{
		"no address":         made(nil),
		"no port":            made([]string{"broker"}),
		"another scheme":     made([]string{"ftp://x"}),
		"a short heartbeat":  made([]string{node}, WithHeartbeat(time.Millisecond)),
		"deflate level 0":    made([]string{node}, WithDeflate(0)),
		"no time":            made([]string{node}, WithPublishTimeout(0)),
		"no bytes in flight": made([]string{node}, WithMaxInFlightBytes(0)),
		"no logger":          made([]string{node}, WithLogger(nil)),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "client: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func made(addresses []string, options ...Option) error {
	_, err := New(addresses, options...)
	return err
}

// TestConnectionOfClosedClientEnds: a client was closed while one of its links opened a connection.
func TestConnectionOfClosedClientEnds(t *testing.T) {
	c, err := New([]string{node})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	defer func() { _ = far.Close() }()
	cn := &conn{nc: near}
	c.router.any[0].adopt(cn)
	if !errors.Is(cn.reason(), ErrClosed) {
		t.Errorf("the connection has ended with %v; want %v: nothing else ends it", cn.reason(), ErrClosed)
	}
}
