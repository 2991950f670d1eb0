package peer

import (
	"bytes"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/peertest"
)

func TestHeldFramesAreSentTogether(t *testing.T) {
	o := newOutbox()
	at := time.Now()
	o.now = func() time.Time { return at } // all in one burst
	var written [][]byte
	o.try = func(b []byte) int {
		written = append(written, bytes.Clone(b))
		return len(b)
	}
	want := putFrame(t, o, []byte("alone"))
	o.Hold()
	var all []byte
	for range 100 {
		o.Hold()
		all = append(all, putFrame(t, o, make([]byte, 400))...)
		o.Release()
	}
	if got := takeAll(t, o); len(written) != 1 || got != nil || len(o.wake) > 0 {
		t.Errorf("%d loads were written and %d bytes were the writer's while they were held", len(written)-1, len(got))
	}
	o.Release()
	if len(written) != 2 || !bytes.Equal(written[0], want) || !bytes.Equal(written[1], all) || len(o.wake) > 0 {
		t.Errorf("%d loads were written, and the writer was woken %d times", len(written), len(o.wake))
	}
	o.Hold()
	o.Release()
	if len(written) != 2 || len(o.wake) > 0 {
		t.Error("nothing was written")
	}
}

func TestLargeBufferIsSentThoughHeld(t *testing.T) {
	o := newOutbox()
	o.Hold()
	n := 0
	for n < gatherMost {
		if got := takeAll(t, o); got != nil || len(o.wake) > 0 {
			t.Fatalf("%d bytes left, of %d", len(got), n)
		}
		n += len(putFrame(t, o, make([]byte, 3000)))
	}
	if len(o.wake) != 1 {
		t.Fatal("the writer was not woken")
	}
	if got := takeAll(t, o); len(got) != n {
		t.Errorf("the writer got %d bytes of %d", len(got), n)
	}
	putFrame(t, o, nil)
	if got := takeAll(t, o); got != nil {
		t.Error("what came behind does not gather")
	}
	o.Release()
}

// Data that waits when the connection is held, and whose writer was already
// woken, is written.
func TestHoldAfterWritersWake(t *testing.T) {
	o := newOutbox()
	want := putFrame(t, o, []byte("m")) // without a socket: the writer's
	<-o.wake
	o.Hold()
	if takeAll(t, o) != nil {
		t.Error("it was taken while it was held")
	}
	o.Release()
	if len(o.wake) != 1 {
		t.Fatal("the writer was not woken")
	}
	if got := takeAll(t, o); !bytes.Equal(got, want) {
		t.Errorf("the writer got %q", got)
	}
}

// TestHungHolder holds both ends of a connection and never releases them: pings keep it alive,
// and the waiting data is sent with them.
func TestHungHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		o := memOptions(n, "b")
		o.Handlers[ClassForward] = holder{}
		b, addr := node(t, o, "b:1")
		a, _ := node(t, memOptions(n, "a"), "a:1")
		p := a.Peer("b", ClassForward, addr)
		if g := p.Gatherer(); g != nil {
			t.Error("there is a connection before a call")
		}
		call := func() (answered time.Duration) {
			began := time.Now()
			if _, err := p.Call(t.Context(), 1, nil); err != nil {
				t.Fatal(err)
			}
			return time.Since(began)
		}
		call()
		session, _ := p.Connected()
		p.Gatherer().Hold()
		for range 20 {
			if took := call(); took > 3*DefaultKeepAlive {
				t.Errorf("answered after %v", took)
			}
		}
		if again, ok := p.Connected(); !ok || again != session {
			t.Error("the connection ended")
		}
		a.Close()
		b.Close()
	})
}

// holder holds the connection for each call, and answers.
type holder struct{ handlerFunc }

func (holder) HandleBy(by Gatherer, _ Node, _ uint64, _ uint8, _ []byte, reply func([][]byte, error)) {
	by.Hold()
	reply(nil, nil)
}

// TestManyHoldersLoseNothing makes calls from many goroutines that hold a connection, in turn and
// concurrently.
func TestManyHoldersLoseNothing(t *testing.T) {
	o := tcpOptions("b")
	o.Handlers[ClassForward] = echo
	_, addr := node(t, o, "127.0.0.1:0")
	o.Self, o.Incarnation = "a", 7
	a, _ := node(t, o, "127.0.0.1:0")
	p := a.Peer("b", ClassForward, addr)
	if _, err := p.Call(t.Context(), 1, nil); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			var answers sync.WaitGroup
			for n := range 300 {
				g := p.Gatherer()
				g.Hold()
				for range n % 7 {
					answers.Add(1)
					p.Go(1, [][]byte{make([]byte, 100*i)}, func(_ []byte, err error) {
						if err != nil {
							t.Error(err)
						}
						answers.Done()
					})
				}
				g.Release()
				if n%10 == i {
					answers.Wait()
				}
			}
			answers.Wait()
		})
	}
	all.Wait()
}
