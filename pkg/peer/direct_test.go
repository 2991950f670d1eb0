package peer

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// putFrame queues an answer and returns the bytes of its frame.
func putFrame(t *testing.T, o *outbox, payload []byte) []byte {
	t.Helper()
	header, _ := encodeHeader(1, flagReply, 0, [][]byte{payload})
	if err := o.put(&header, [][]byte{payload}, 1<<30); err != nil {
		t.Fatal(err)
	}
	return append(header[:], payload...)
}

// takeAll returns the frames that are left to the writer.
func takeAll(t *testing.T, o *outbox) []byte {
	t.Helper()
	var all []byte
	var l load
	for {
		ok, err := o.swap(&l)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return all
		}
		at := 0
		for _, p := range l.pieces {
			all = append(append(all, l.encoded[at:p.at]...), p.data...)
			at = p.at
		}
		all = append(all, l.encoded[at:]...)
		l.reset()
	}
}

func TestSmallWritesAreMadeByCaller(t *testing.T) {
	o := newOutbox()
	var written []byte
	o.try = func(b []byte) int {
		written = append(written, b...)
		return len(b)
	}
	small := putFrame(t, o, []byte("small"))
	if !bytes.Equal(written, small) || len(o.wake) != 0 {
		t.Errorf("%d of %d bytes were written, and the writer was woken %d times", len(written), len(small), len(o.wake))
	}
	big := putFrame(t, o, make([]byte, writeAtOnce))
	if len(written) != len(small) || len(o.wake) != 1 {
		t.Errorf("%d bytes were written, and the writer was woken %d times: much is the writer's", len(written), len(o.wake))
	}
	if got := takeAll(t, o); !bytes.Equal(got, big) {
		t.Errorf("the writer got %d bytes, want %d", len(got), len(big))
	}
}

func TestWriterWritesBursts(t *testing.T) {
	o := newOutbox()
	at := time.Now()
	o.now = func() time.Time { return at }
	direct := 0
	o.try = func(b []byte) int {
		direct++
		return len(b)
	}
	for i, x := range []struct {
		after  time.Duration // the write before
		direct int           // so far
	}{{0, 1}, {burst - 1, 1}, {burst - 1, 1}, {burst, 2}, {0, 2}, {burst, 3}} {
		at = at.Add(x.after)
		putFrame(t, o, []byte("frame"))
		if direct != x.direct {
			t.Errorf("frame %d: %d were written by the callers that queued them, want %d", i, direct, x.direct)
		}
		if len(o.wake) > 0 {
			<-o.wake
			if takeAll(t, o) == nil {
				t.Errorf("frame %d: the writer has nothing", i)
			}
		}
	}
}

func TestFramesQueuedDuringDirectWriteAreLeftToWriter(t *testing.T) {
	o := newOutbox()
	begun, end := make(chan struct{}), make(chan struct{})
	o.try = func(b []byte) int {
		close(begun)
		<-end
		return len(b)
	}
	var first sync.WaitGroup
	first.Go(func() { putFrame(t, o, []byte("first")) })
	<-begun
	second := putFrame(t, o, []byte("second"))
	if got := takeAll(t, o); got != nil || len(o.wake) != 0 {
		t.Errorf("the writer was woken %d times and got %q while another wrote", len(o.wake), got)
	}
	close(end)
	first.Wait()
	if len(o.wake) != 1 {
		t.Error("the writer was not woken")
	}
	if got := takeAll(t, o); !bytes.Equal(got, second) {
		t.Errorf("the writer got %q, want %q", got, second)
	}
}

func TestCloseDuringDirectWriteIsNotMissed(t *testing.T) {
	o := newOutbox()
	broken := errors.New("broken")
	o.try = func(b []byte) int {
		o.fail(broken)
		if _, err := o.swap(&load{}); !errors.Is(err, broken) {
			t.Errorf("the writer got %v", err)
		}
		return len(b)
	}
	putFrame(t, o, nil)
	if len(o.wake) == 0 {
		t.Error("the writer was not woken")
	}
}

func TestDirectWritesKeepTheOrderOfBytes(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	o := newOutbox()
	var at time.Time
	o.now = func() time.Time {
		at = at.Add(time.Duration(rng.IntN(2)) * burst)
		return at
	}
	var queued, written []byte
	held := false
	o.try = func(b []byte) int {
		n := len(b)
		if rng.IntN(2) == 0 {
			n = rng.IntN(len(b) + 1)
		}
		written = append(written, b[:n]...)
		return n
	}
	for range 2000 {
		switch rng.IntN(6) {
		case 0:
			woken := len(o.wake) > 0
			if woken {
				<-o.wake
			}
			got := takeAll(t, o)
			if len(got) > 0 && !woken && !held {
				t.Fatal("something waits, and the writer was not woken")
			}
			written = append(written, got...)
		case 1:
			if !held {
				held = true
				o.Hold()
			}
		case 2:
			if held {
				held = false
				o.Release()
			}
		default:
			size := rng.IntN(100)
			if rng.IntN(10) == 0 {
				size = copyBelow + rng.IntN(2*writeAtOnce)
			}
			payload := make([]byte, size)
			for i := range payload {
				payload[i] = byte(rng.Uint32())
			}
			queued = append(queued, putFrame(t, o, payload)...)
		}
	}
	if held {
		o.Release()
	}
	written = append(written, takeAll(t, o)...)
	if !bytes.Equal(queued, written) {
		t.Errorf("%d bytes were queued, and %d others written", len(queued), len(written))
	}
}

// TestFullSocket has a node whose peer reads nothing for a while: calls are
// accepted nevertheless, and arrive in order.
func TestFullSocket(t *testing.T) {
	const calls = 2000
	hold := make(chan struct{})
	var (
		mu  sync.Mutex // a reply that crosses sockets orders nothing for the race detector
		got []uint64
	)
	o := tcpOptions("b")
	o.Handlers[ClassForward] = handlerFunc(func(_ Node, _ uint64, _ uint8, payload []byte, reply func([][]byte, error)) {
		<-hold
		mu.Lock()
		got = append(got, uint64(payload[0])|uint64(payload[1])<<8)
		mu.Unlock()
		reply(nil, nil)
	})
	_, addr := node(t, o, "127.0.0.1:0")
	o.Self, o.Incarnation = "a", 7
	a, _ := node(t, o, "127.0.0.1:0")
	p := a.Peer("b", ClassForward, addr)
	p.Hold()
	part := make([]byte, copyBelow-1) // small enough to be copied; in all more than the kernel keeps for a socket
	var all sync.WaitGroup
	for i := range calls {
		all.Add(1)
		p.Go(1, [][]byte{{byte(i), byte(i >> 8)}, part, part, part}, func(_ []byte, err error) {
			if err != nil {
				t.Error(err)
			}
			all.Done()
		})
	}
	close(hold)
	all.Wait()
	mu.Lock()
	defer mu.Unlock()
	if len(got) != calls || !slices.IsSorted(got) {
		t.Errorf("%d calls arrived, sorted: %t", len(got), slices.IsSorted(got))
	}
}

func TestOnlySocketsAreWrittenDirectly(t *testing.T) {
	raw, other := net.Pipe()
	defer raw.Close()
	defer other.Close()
	if newDirect(&link{conn: raw}) != nil {
		t.Error("a connection without a socket cannot be written to directly")
	}
	l, err := TCP{}.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	socket, err := TCP{}.Dial(context.Background(), "", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if newDirect(&link{conn: socket}) == nil {
		t.Error("a socket can be written to directly")
	}
}
