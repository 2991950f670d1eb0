package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/internal/peertest"
	"github.com/brokerd/brokerd/pkg/fate"
)

// history records the callbacks of a Peer.
type history struct{ lines []string }

func (h *history) options() []PeerOption {
	var sessions []uint64
	number := func(s uint64) int {
		for i, known := range sessions {
			if known == s {
				return i + 1
			}
		}
		sessions = append(sessions, s)
		return len(sessions)
	}
	return []PeerOption{
		OnUp(func(s uint64) { h.lines = append(h.lines, fmt.Sprintf("up %d", number(s))) }),
		OnDown(func(s uint64) { h.lines = append(h.lines, fmt.Sprintf("down %d", number(s))) }),
	}
}

// silent accepts calls and never answers.
var silent handlerFunc = func(Node, uint64, uint8, []byte, func([][]byte, error)) {}

func TestSessionEndsAfterItsLastCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		o := memOptions(n, "b")
		o.Handlers[ClassForward] = silent
		b, addr := node(t, o, "b:1")
		a, _ := node(t, memOptions(n, "a"), "a:1")
		var h history
		p := a.Peer("b", ClassForward, addr, h.options()...)
		for i := range 3 {
			p.Go(1, nil, func(_ []byte, err error) {
				if !errors.Is(err, ErrDisconnected) || fate.Of(err) != fate.Uncertain {
					t.Errorf("call %d: %v", i, err)
				}
				h.lines = append(h.lines, fmt.Sprintf("done %d", i))
			})
		}
		synctest.Wait()
		first, ok := p.Connected()
		if !ok {
			t.Fatal("not connected")
		}
		n.Break("a", "b")
		synctest.Wait()
		if _, ok := p.Connected(); ok {
			t.Error("still connected")
		}
		time.Sleep(DefaultBackoffFirst)
		p.Go(1, nil, func([]byte, error) {})
		synctest.Wait()
		if second, ok := p.Connected(); !ok || second == first {
			t.Errorf("session %d after %d, %v", second, first, ok)
		}
		p.Close()
		want := []string{"up 1", "done 0", "done 1", "done 2", "down 1", "up 2", "down 2"}
		if diff := cmp.Diff(want, h.lines); diff != "" {
			t.Error(diff)
		}
		a.Close()
		b.Close()
	})
}

func TestHeldPeerReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		var told events
		o := memOptions(n, "a")
		o.OnEvent = told.add
		a, _ := node(t, o, "a:1")
		var h history
		p := a.Peer("b", ClassForward, "b:1", h.options()...)
		p.Hold()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		// The pause is 20 ms, doubled up to 1 s, each at least half of that: 7 pauses until about 1 s,
		// then one or two per second.
		if n := len(told.of(EventRefused)); n < 13 || n > 30 {
			t.Errorf("%d attempts in 10 s", n)
		}
		_, err := p.Call(t.Context(), 1, nil)
		if !errors.Is(err, syscall.ECONNREFUSED) || fate.Of(err) != fate.Refused {
			t.Errorf("between two attempts: %v", err)
		}
		b, _ := node(t, memOptions(n, "b"), "b:1")
		time.Sleep(DefaultBackoffLast)
		if _, err := p.Call(t.Context(), 1, nil); err != nil {
			t.Errorf("with b there: %v", err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		n.Break("a", "b")
		synctest.Wait() // a connection that lived is made again at once
		if _, ok := p.Connected(); !ok {
			t.Error("not connected again")
		}
		p.Release()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		n.Break("a", "b")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if _, ok := p.Connected(); ok {
			t.Error("connected again, though no caller wanted it")
		}
		if diff := cmp.Diff([]string{"up 1", "down 1", "up 2", "down 2"}, h.lines); diff != "" {
			t.Error(diff)
		}
		for _, s := range a.Stats() {
			want := Stats{Node: "b", Class: ClassForward, Sent: s.Sent, Received: s.Received, Calls: 2, Failed: 1, Connects: 2}
			if s != want || s.Sent == 0 || s.Received == 0 {
				t.Errorf("counted %+v", s)
			}
		}
		a.Close()
		b.Close()
	})
}

func TestPausesGrowWithJitter(t *testing.T) {
	seen := map[time.Duration]bool{}
	for seed := range uint64(50) {
		for attempt := 1; attempt < 100; attempt++ {
			most := min(20*time.Millisecond<<min(attempt-1, 20), time.Second)
			d := backoff(20*time.Millisecond, time.Second, attempt, seed)
			if d < most/2 || d > most {
				t.Fatalf("attempt %d waits %s, want %s to %s", attempt, d, most/2, most)
			}
			if d != backoff(20*time.Millisecond, time.Second, attempt, seed) {
				t.Fatal("not the same again")
			}
			seen[d] = true
		}
	}
	if len(seen) < 4000 {
		t.Errorf("only %d different pauses", len(seen))
	}
	if d := backoff(1, 1, 1, 0); d != 1 {
		t.Errorf("shortest pause is %s", d)
	}
}

func TestIdleConnectionsStayOpenAndAreTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		n.SetLink("a", "b", peertest.Link{Delay: 20 * time.Millisecond})
		n.SetLink("b", "a", peertest.Link{Delay: 10 * time.Millisecond})
		b, addr := node(t, memOptions(n, "b"), "b:1")
		a, _ := node(t, memOptions(n, "a"), "a:1")
		var h history
		p := a.Peer("b", ClassForward, addr, h.options()...)
		p.Hold()
		time.Sleep(time.Hour)
		synctest.Wait()
		if diff := cmp.Diff([]string{"up 1"}, h.lines); diff != "" {
			t.Error(diff)
		}
		for _, s := range append(a.Stats(), b.Stats()...) {
			trip := 30 * time.Millisecond
			if s.Inbound { // who dials, pings
				trip = 0
			}
			if s.RoundTrip != trip || s.Connected != 1 || s.Connects != 1 {
				t.Errorf("after an hour: %+v", s)
			}
		}
		p.Release()
		a.Close()
		b.Close()
	})
}

func TestSilentConnectionIsClosed(t *testing.T) {
	for _, tt := range []struct{ name, from, to string }{
		{"nothing comes back", "b", "a"},
		{"nothing gets there", "a", "b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := peertest.NewNetwork()
				var there events
				o := memOptions(n, "b")
				o.Handlers[ClassForward], o.OnEvent = silent, there.add
				b, addr := node(t, o, "b:1")
				a, _ := node(t, memOptions(n, "a"), "a:1")
				p := a.Peer("b", ClassForward, addr)
				var ended time.Time
				p.Go(1, nil, func(_ []byte, err error) {
					if !errors.Is(err, ErrDisconnected) {
						t.Errorf("got %v", err)
					}
					ended = time.Now()
				})
				time.Sleep(5*DefaultKeepAlive + DefaultKeepAlive/2)
				n.SetLink(tt.from, tt.to, peertest.Link{Cut: true})
				cut := time.Now()
				time.Sleep(4 * DefaultDeadAfter)
				synctest.Wait()
				// The side that receives nothing gives up. The other side learns of it, or
				// receives nothing either.
				if after := ended.Sub(cut); after < DefaultDeadAfter-DefaultKeepAlive || after > 2*DefaultDeadAfter {
					t.Errorf("given up after %s", after)
				}
				if len(there.of(EventDown)) != 1 {
					t.Errorf("the other side got the events %v", there.all)
				}
				a.Close()
				b.Close()
			})
		})
	}
}

func TestBlockedWriteTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		b, addr := node(t, memOptions(n, "b"), "b:1")
		o := memOptions(n, "a")
		o.DeadAfter = time.Hour // so that only writing can be the reason
		a, _ := node(t, o, "a:1")
		p := a.Peer("b", ClassForward, addr)
		if _, err := p.Call(t.Context(), 1, nil); err != nil {
			t.Fatal(err)
		}
		n.SetLink("a", "b", peertest.Link{Block: true})
		n.SetLink("b", "a", peertest.Link{Cut: true}) // b's giving up is not heard
		began := time.Now()
		if _, err := p.Call(t.Context(), 1, nil); !errors.Is(err, ErrDisconnected) || time.Since(began) != DefaultWriteTimeout {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		a.Close()
		b.Close()
	})
}

func TestSlowPeerDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		a, _ := node(t, memOptions(n, "a"), "a:1")
		b, addr := node(t, memOptions(n, "b"), "b:1")
		c, other := node(t, memOptions(n, "c"), "c:1")
		slow, bulk, fast := a.Peer("b", ClassForward, addr), a.Peer("c", ClassReplication, other), a.Peer("c", ClassForward, other)
		n.SetLink("a", "b", peertest.Link{Block: true})
		ended := 0
		for range 50 {
			slow.Go(1, [][]byte{make([]byte, 1<<20)}, func([]byte, error) { ended++ })
			bulk.Go(1, [][]byte{make([]byte, 1<<20)}, func([]byte, error) { ended++ })
		}
		began := time.Now()
		if _, err := fast.Call(t.Context(), 1, nil); err != nil || time.Since(began) != 0 {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		synctest.Wait()
		if ended != 50 {
			t.Errorf("%d calls ended", ended)
		}
		a.Close()
		b.Close()
		c.Close()
		if ended != 100 {
			t.Errorf("%d calls ended with Close", ended)
		}
	})
}

func TestPeerThatReadsNoAnswersIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		var told events
		o := memOptions(n, "b")
		o.MaxQueuedBytes, o.OnEvent = 1<<20, told.add
		b, addr := node(t, o, "b:1")
		a, _ := node(t, memOptions(n, "a"), "a:1")
		p := a.Peer("b", ClassForward, addr)
		if _, err := p.Call(t.Context(), 1, nil); err != nil {
			t.Fatal(err)
		}
		n.SetLink("b", "a", peertest.Link{Block: true})
		for range 30 {
			p.Go(1, [][]byte{make([]byte, 64<<10)}, func([]byte, error) {})
		}
		synctest.Wait()
		if down := told.of(EventDown); len(down) != 1 || !errors.Is(down[0].Err, errSlow) || !down[0].Inbound || down[0].Node != "a" {
			t.Errorf("told %+v", told.all)
		}
		a.Close()
		b.Close()
	})
}

// stranger opens a valid connection of class forward to addr, for tests of the
// frames after it.
func stranger(t *testing.T, n Network, addr string) net.Conn {
	t.Helper()
	conn := pipeTo(t, n, "x", addr)
	conn.Write(encodeHello(&Hello{MinVersion: 1, MaxVersion: 1, Class: ClassForward, ClusterID: "c1", Node: "x", Session: 9}))
	answer, err := readHello(conn)
	if err != nil || answer.Session != 9 || answer.Node != "b" {
		t.Fatalf("answered %+v, %v", answer, err)
	}
	return conn
}

func TestProtocolViolationClosesConnection(t *testing.T) {
	damaged := encode(1, 0, 1, "hello")
	damaged[len(damaged)-1]++
	for name, sent := range map[string][]byte{
		"damaged":            damaged,
		"answer to no call":  encode(1, flagReply, 5, ""),
		"unknown flags":      encode(1, 0x80, 5, ""),
		"longer than it may": {255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := peertest.NewNetwork()
				var told events
				o := memOptions(n, "b")
				o.OnEvent = told.add
				b, addr := node(t, o, "b:1")
				conn := stranger(t, n, addr)
				conn.Write(sent)
				if got, err := io.ReadAll(conn); len(got) != 0 || err != nil {
					t.Errorf("read %x, %v", got, err)
				}
				synctest.Wait()
				if down := told.of(EventDown); len(down) != 1 || !errors.Is(down[0].Err, errFrame) {
					t.Errorf("told %+v", told.all)
				}
				b.Close()
			})
		})
	}
}

func TestConnectionsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		o := memOptions(n, "b")
		o.MaxConnections = 2
		b, addr := node(t, o, "b:1")
		first := stranger(t, n, addr)
		stranger(t, n, addr)
		third := pipeTo(t, n, "x", addr)
		if got, err := io.ReadAll(third); len(got) != 0 || err != nil {
			t.Errorf("read %x, %v", got, err)
		}
		first.Close()
		synctest.Wait()
		stranger(t, n, addr)
		b.Close()
	})
}

func TestCloseEndsCallsInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		o := memOptions(n, "b")
		o.Handlers[ClassForward] = silent
		b, addr := node(t, o, "b:1")
		a, _ := node(t, memOptions(n, "a"), "a:1")
		n.SetLink("a", "c", peertest.Link{Cut: true})
		var sent, unsent error
		a.Peer("b", ClassForward, addr).Go(1, nil, func(_ []byte, err error) { sent = err })
		a.Peer("c", ClassForward, "c:1").Go(1, nil, func(_ []byte, err error) { unsent = err })
		synctest.Wait()
		a.Close()
		if !errors.Is(sent, ErrDisconnected) || !errors.Is(unsent, errClosed) {
			t.Errorf("what was sent: %v; what was not: %v", sent, unsent)
		}
		late := a.Peer("b", ClassForward, addr)
		late.Hold()
		if _, err := late.Call(t.Context(), 1, nil); !errors.Is(err, errClosed) {
			t.Errorf("after Close: %v", err)
		}
		late.Close()
		l, err := n.Listen("a:2")
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Serve(context.Background(), l); !errors.Is(err, errClosed) {
			t.Errorf("Serve after Close: %v", err)
		}
		b.Close()
	})
}

// scarceListener fails to accept a number of times, like one of a process without file descriptors.
type scarceListener struct {
	net.Listener
	fails int
}

func (l *scarceListener) Accept() (net.Conn, error) {
	if l.fails--; l.fails >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}

func TestFailureToAcceptIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		var told events
		o := memOptions(n, "b")
		o.OnEvent = told.add
		b, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		l, err := n.Listen("b:1")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- b.Serve(ctx, &scarceListener{l, 3}) }()
		time.Sleep(time.Minute)
		conn := stranger(t, n, "b:1")
		conn.Close()
		if got := told.of(EventAccept); len(got) != 3 || got[0].Address != "b:1" || !errors.Is(got[0].Err, syscall.EMFILE) {
			t.Errorf("events: %v", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("ended with %v", err)
		}
		b.Close()
	})
}

func TestServeEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		b, err := New(memOptions(n, "b"))
		if err != nil {
			t.Fatal(err)
		}
		l, err := n.Listen("b:1")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- b.Serve(ctx, l) }()
		conn := stranger(t, n, "b:1")
		cancel()
		if err := <-done; err != nil {
			t.Errorf("ended with %v", err)
		}
		if _, err := io.ReadAll(conn); err != nil {
			t.Errorf("the connection ended with %v", err)
		}
		b.Close()
	})
}
