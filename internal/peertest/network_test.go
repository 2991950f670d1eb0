package peertest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// memPair returns both ends of a connection from a to b.
func memPair(t *testing.T, n *Network) (dialer, listener net.Conn) {
	t.Helper()
	l, err := n.Listen("b:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	dialer, err = n.Dial(t.Context(), "a", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialer.Close() })
	if listener, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	if dialer.RemoteAddr() != listener.LocalAddr() || dialer.LocalAddr() != listener.RemoteAddr() {
		t.Errorf("%s - %s and %s - %s", dialer.LocalAddr(), dialer.RemoteAddr(), listener.LocalAddr(), listener.RemoteAddr())
	}
	return dialer, listener
}

// arrives checks the next received bytes and their time since began.
func arrives(t *testing.T, c net.Conn, want string, began time.Time, after time.Duration) {
	t.Helper()
	b := make([]byte, len(want))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != want || time.Since(began) != after {
		t.Errorf("%q, %v after %s, want %q after %s", b, err, time.Since(began), want, after)
	}
}

func TestMemoryDeliversInOrderAndOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		a, b := memPair(t, n)
		began := time.Now()
		n.SetLink("a", "b", Link{Delay: 50 * time.Millisecond})
		io.WriteString(a, "slow ")
		n.SetLink("a", "b", Link{})
		io.WriteString(a, "fast")
		io.WriteString(b, "back")
		arrives(t, a, "back", began, 0)
		arrives(t, b, "slow fast", began, 50*time.Millisecond)
		n.SetLink("a", "b", Link{Delay: time.Second})
		began = time.Now()
		a.Close()
		if got, err := io.ReadAll(b); len(got) != 0 || err != nil || time.Since(began) != time.Second {
			t.Errorf("end: %q, %v after %s", got, err, time.Since(began))
		}
		if _, err := b.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("write to who has gone: %v", err)
		}
		if _, err := a.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("write after Close: %v", err)
		}
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read after Close: %v", err)
		}
		if err := a.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("second Close: %v", err)
		}
	})
}

func TestMemoryCutsOneWayAndHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		a, b := memPair(t, n)
		n.SetLink("a", "b", Link{Cut: true})
		if !n.Link("a", "b").Cut || n.Link("b", "a").Cut {
			t.Error("cut otherwise than asked")
		}
		began := time.Now()
		io.WriteString(a, "late")
		io.WriteString(b, "back")
		arrives(t, a, "back", began, 0)
		time.AfterFunc(time.Minute, func() { n.SetLink("a", "b", Link{}) })
		arrives(t, b, "late", began, time.Minute)
	})
}

func TestMemoryBlocksWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		a, b := memPair(t, n)
		a.SetDeadline(time.Now().Add(time.Second))
		if wrote, err := a.Write(make([]byte, memCapacity+1)); wrote != memCapacity || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("wrote %d, %v", wrote, err)
		}
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read: %v", err)
		}
		a.SetDeadline(time.Time{})
		n.SetLink("b", "a", Link{Block: true})
		began := time.Now()
		time.AfterFunc(time.Second, func() { n.SetLink("b", "a", Link{}) })
		if _, err := io.WriteString(b, "x"); err != nil || time.Since(began) != time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		time.AfterFunc(time.Second, func() { a.SetReadDeadline(time.Now()) })
		arrives(t, a, "x", began, time.Second)
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != 2*time.Second {
			t.Errorf("read until the deadline is set: %v after %s", err, time.Since(began))
		}
	})
}

func TestMemoryBreaksConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		a, b := memPair(t, n)
		io.WriteString(a, "lost")
		n.Break("b", "a")
		for _, c := range []net.Conn{a, b} {
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("read: %v", err)
			}
			if _, err := c.Write(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("write: %v", err)
			}
		}
		a.Close()
		b.Close()
		if e := n.edgeLocked("a", "b"); len(e.pipes) != 0 {
			t.Errorf("%d pipes are kept", len(e.pipes))
		}
	})
}

func TestMemoryForgetsClosedConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		a, b := memPair(t, n)
		b.Close()
		a.Close()
		for _, e := range n.edges {
			if len(e.pipes) != 0 {
				t.Errorf("%d pipes are kept", len(e.pipes))
			}
		}
	})
}

func TestMemoryConnectsLikeTCP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		dial := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			c, err := n.Dial(ctx, "a", "b:1")
			if err == nil {
				c.Close()
			}
			return err
		}
		if err := dial(); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("without a listener: %v", err)
		}
		l, err := n.Listen("b:1")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Listen("b:1"); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("twice: %v", err)
		}
		if _, err := n.Listen("b"); err == nil {
			t.Error("listens without a port")
		}
		for _, edge := range [][2]string{{"a", "b"}, {"b", "a"}} {
			n.SetLink(edge[0], edge[1], Link{Cut: true})
			if err := dial(); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("cut from %s: %v", edge[0], err)
			}
			n.SetLink(edge[0], edge[1], Link{Delay: 300 * time.Millisecond})
		}
		began := time.Now()
		waiting, err := n.Dial(t.Context(), "a", "b:1")
		if err != nil || time.Since(began) != 600*time.Millisecond {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		l.Close()
		if _, err := waiting.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a connection that was not accepted: %v", err)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept after Close: %v", err)
		}
		if err := dial(); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("after the listener was closed: %v", err)
		}
	})
}

func TestMemoryUnplugsAHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		a, b := memPair(t, n) // from a to b
		l, err := n.Listen("a:1")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		n.Unplug("b")
		for name, c := range map[string]net.Conn{"a": a, "b": b} {
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%s: %v", name, err)
			}
		}
		dial := func(from, to string) error {
			c, err := n.Dial(t.Context(), from, to)
			if err == nil {
				c.Close()
			}
			return err
		}
		there := b.LocalAddr().String()
		for _, d := range [][2]string{{"a", there}, {"b", "a:1"}} {
			if err := dial(d[0], d[1]); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("from %s to %s: %v", d[0], d[1], err)
			}
		}
		if err := dial("c", "a:1"); err != nil || !n.Unplugged("b") || n.Unplugged("a") {
			t.Errorf("the others: %v", err)
		}
		n.Plug("b")
		if err := dial("a", there); err != nil || n.Unplugged("b") {
			t.Errorf("back: %v", err)
		}
	})
}
