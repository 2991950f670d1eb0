package peer

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/brokerd/brokerd/internal/peertest"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/limit"
)

func TestCallsAreAnsweredOverTCP(t *testing.T) {
	o := tcpOptions("b")
	_, addr := node(t, o, "127.0.0.1:0")
	o.Self, o.Incarnation = "a", 7
	a, _ := node(t, o, "127.0.0.1:0")
	p := a.Peer("b", ClassReplication, addr)
	for _, size := range []int{0, 1, copyBelow - 1, copyBelow, smallestChunk - frameHeader, smallestChunk, 128 << 10, 5 << 20, 17 << 20, 0} {
		want := bytes.Repeat([]byte{byte(size), 1, 2, 3, 4}, size/5+1)[:size]
		got, err := p.Call(t.Context(), 9, [][]byte{want[:size/3], want[size/3:]})
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes: got %d bytes, %v", size, len(got), err)
		}
	}
	if s, ok := p.Connected(); !ok || s == 0 {
		t.Errorf("session %d, %v", s, ok)
	}
	p.Close()
	if _, err := p.Call(t.Context(), 9, nil); !errors.Is(err, errClosed) || fate.Of(err) != fate.Refused {
		t.Errorf("after Close: %v", err)
	}
}

func TestCallsArriveInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		var mu sync.Mutex
		var seen []uint64
		var late []func([][]byte, error)
		o := memOptions(n, "b")
		o.Handlers[ClassForward] = handlerFunc(func(from Node, session uint64, kind uint8, payload []byte, reply func([][]byte, error)) {
			mu.Lock()
			defer mu.Unlock()
			id := binary.LittleEndian.Uint64(payload)
			seen = append(seen, id)
			if from != "a" || session == 0 || kind != 3 {
				t.Errorf("call %d from %s, session %d, kind %d", id, from, session, kind)
			}
			if id%2 == 0 {
				late = append(late, reply)
				return
			}
			reply(numbered(id), nil)
		})
		_, addr := node(t, o, "b:1")
		a, _ := node(t, memOptions(n, "a"), "a:1")
		p := a.Peer("b", ClassForward, addr)
		var done []uint64
		for i := range uint64(100) {
			p.Go(3, numbered(i), func(reply []byte, err error) {
				if err != nil || binary.LittleEndian.Uint64(reply) != i {
					t.Errorf("call %d: %x, %v", i, reply, err)
				}
				done = append(done, i)
			})
		}
		synctest.Wait()
		if len(seen) != 100 || len(done) != 50 {
			t.Fatalf("%d calls arrived, %d are answered", len(seen), len(done))
		}
		for i, id := range seen {
			if id != uint64(i) {
				t.Fatalf("call %d came at place %d", id, i)
			}
		}
		for i := range late {
			late[len(late)-1-i](numbered(uint64(98-2*i)), nil)
		}
		synctest.Wait()
		if len(done) != 100 || done[50] != 98 || done[99] != 0 {
			t.Errorf("answered in the order %v", done)
		}
		a.Close()
	})
}

func TestErrorsKeepTheirCodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		o := memOptions(n, "b")
		o.Handlers[ClassForward] = handlerFunc(func(_ Node, _ uint64, kind uint8, _ []byte, reply func([][]byte, error)) {
			switch kind {
			case 1:
				reply(nil, &RemoteError{Code: 77, Text: "stale epoch"})
			case 2:
				reply(nil, errors.New(strings.Repeat("x", 2*maxErrorText)))
			}
		})
		_, addr := node(t, o, "b:1")
		a, _ := node(t, memOptions(n, "a"), "a:1")
		p := a.Peer("b", ClassForward, addr)
		for kind, want := range map[uint8]RemoteError{1: {77, "stale epoch"}, 2: {0, strings.Repeat("x", maxErrorText)}} {
			_, err := p.Call(t.Context(), kind, nil)
			if got, ok := errors.AsType[*RemoteError](err); !ok || *got != want {
				t.Errorf("kind %d: %v", kind, err)
			}
		}
		a.Close()
	})
}

func TestUnsendableCallsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		var told events
		o := memOptions(n, "a")
		o.MaxQueuedBytes, o.MaxFrame, o.MaxCalls, o.OnEvent = 1000, 600, 4, told.add
		a, _ := node(t, o, "a:1")
		b, addr := node(t, memOptions(n, "b"), "b:1")

		closed := a.Peer("b", ClassForward, "b:2")
		_, err := closed.Call(t.Context(), 1, nil)
		if !errors.Is(err, syscall.ECONNREFUSED) || fate.Of(err) != fate.Refused || len(told.of(EventRefused)) != 1 {
			t.Errorf("without a listener: %v, %v", err, told.all)
		}

		p := a.Peer("b", ClassForward, addr)
		call := func(size int) error {
			result := errors.New("waiting")
			p.Go(1, [][]byte{make([]byte, size)}, func(_ []byte, err error) { result = err })
			return result
		}
		n.SetLink("a", "b", peertest.Link{Cut: true})
		if err := call(601); !errors.Is(err, ErrTooBig) {
			t.Errorf("too big: %v", err)
		}
		call(600) // less than MaxQueuedBytes wait: one more may be of any size
		call(600)
		if err := call(0); !errors.Is(err, errBusy) || fate.Of(err) != fate.Refused {
			t.Errorf("too much: %v", err)
		}
		n.SetLink("a", "b", peertest.Link{})
		synctest.Wait()
		n.SetLink("a", "b", peertest.Link{Block: true}) // what is queued now is not written
		call(600)
		call(600)
		synctest.Wait()
		if err := call(0); !errors.Is(err, errBusy) {
			t.Errorf("too much on a connection: %v", err)
		}
		b.Close()
		a.Close()
	})
}

func TestCallEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		o := memOptions(n, "b")
		o.Handlers[ClassForward] = handlerFunc(func(Node, uint64, uint8, []byte, func([][]byte, error)) {})
		_, addr := node(t, o, "b:1")
		a, _ := node(t, memOptions(n, "a"), "a:1")
		ctx, cancel := context.WithTimeout(t.Context(), 5*DefaultDeadAfter)
		defer cancel()
		p := a.Peer("b", ClassForward, addr)
		if _, err := p.Call(ctx, 1, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if _, ok := p.Connected(); !ok {
			t.Error("a handler that takes its time is no dead connection")
		}
		a.Close()
	})
}

func TestTooManyCallsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		o := memOptions(n, "a")
		o.MaxCalls = 4
		a, _ := node(t, o, "a:1")
		b, addr := node(t, memOptions(n, "b"), "b:1")
		n.SetLink("a", "b", peertest.Link{Cut: true})
		p := a.Peer("b", ClassForward, addr)
		for range 4 {
			p.Go(1, nil, func([]byte, error) {})
		}
		if _, err := p.Call(t.Context(), 1, nil); !errors.Is(err, errBusy) {
			t.Errorf("too many while there is no connection: %v", err)
		}
		n.SetLink("a", "b", peertest.Link{})
		if _, err := p.Call(t.Context(), 1, nil); !errors.Is(err, errBusy) {
			t.Errorf("too many on a connection: %v", err)
		}
		b.Close()
		a.Close()
	})
}

// TestConnectionAcceptsAllReplicatorTraffic: they limit themselves to Sizes.Pair and
// one frame. Their other requests, which compare logs, are small: one for each
// partition.
func TestConnectionAcceptsAllReplicatorTraffic(t *testing.T) {
	const partitions, compare = 8 << 10, 2 << 10
	o, sizes := Options{}.withDefaults(), limit.Default()
	if sizes.Request < frameHeader {
		t.Errorf("a request counts for %d bytes, its frame adds %d", sizes.Request, frameHeader)
	}
	if most := sizes.Pair + sizes.Frame + partitions*compare; most > o.queue(ClassReplication) {
		t.Errorf("replicators send up to %d bytes, the queue takes %d", most, o.queue(ClassReplication))
	}
	if most := sizes.Pair/sizes.Request + 1 + partitions; most > o.MaxCalls {
		t.Errorf("replicators make up to %d calls, a connection takes %d", most, o.MaxCalls)
	}
	if other := o.queue(ClassForward); other != defaultMaxQueuedBytes {
		t.Errorf("other classes queue %d bytes", other)
	}

	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		o := memOptions(n, "a")
		o.MaxQueuedBytes, o.MaxFrame = 1000, 600
		a, _ := node(t, o, "a:1")
		b := memOptions(n, "b")
		b.Handlers[ClassReplication] = handlerFunc(func(Node, uint64, uint8, []byte, func([][]byte, error)) {})
		_, addr := node(t, b, "b:1")
		p := a.Peer("b", ClassReplication, addr)
		p.Hold()
		synctest.Wait()
		n.SetLink("a", "b", peertest.Link{Block: true}) // what is queued now is not written
		var errs []error
		for range 4 {
			p.Go(1, [][]byte{make([]byte, 500)}, func(_ []byte, err error) { errs = append(errs, err) })
		}
		if len(errs) != 0 {
			t.Errorf("with a queue of 1000 bytes and a frame of 600: %v", errs)
		}
		p.Go(1, nil, func(_ []byte, err error) { errs = append(errs, err) })
		if len(errs) != 1 || !errors.Is(errs[0], errBusy) {
			t.Errorf("over that: %v", errs)
		}
		a.Close()
	})
}
