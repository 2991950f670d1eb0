package peer

import (
	"encoding/binary"
	"errors"
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/peertest"
	"github.com/brokerd/brokerd/pkg/fate"
)

// seed replays one run of the random tests.
var seed = flag.Uint64("seed", 0, "seed of the random tests; 0: several")

// uncounted is the kind of calls that are answered but not checked.
const uncounted = 255

// chaos records a run of calls under faults, for the checks at its end.
type chaos struct {
	t *testing.T

	mu      sync.Mutex
	last    map[uint64]uint64 // per session: the last call that arrived
	arrived map[uint64]int
	done    map[uint64]int
	errs    map[uint64]error
}

// Handle notes a call and answers it, at once or later.
func (c *chaos) Handle(_ Node, session uint64, kind uint8, payload []byte, reply func([][]byte, error)) {
	if kind == uncounted {
		reply(nil, nil)
		return
	}
	id := binary.LittleEndian.Uint64(payload)
	c.mu.Lock()
	if last, ok := c.last[session]; ok && id <= last {
		c.t.Errorf("call %d arrived after %d", id, last)
	}
	c.last[session] = id
	c.arrived[id]++
	c.mu.Unlock()
	if kind == 0 {
		reply(numbered(id), nil)
		return
	}
	time.AfterFunc(time.Duration(kind)*time.Millisecond, func() { reply(numbered(id), nil) })
}

// ended notes the end of a call.
func (c *chaos) ended(id uint64, reply []byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done[id]++
	c.errs[id] = err
	if err == nil && binary.LittleEndian.Uint64(reply) != id {
		c.t.Errorf("call %d got the answer %x", id, reply)
	}
}

// judge checks every call after the end of all calls.
func (c *chaos) judge(calls uint64) (answered int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range calls {
		err := c.errs[id]
		switch {
		case c.done[id] != 1:
			c.t.Errorf("call %d was done %d times", id, c.done[id])
		case c.arrived[id] > 1:
			c.t.Errorf("call %d arrived %d times", id, c.arrived[id])
		case err == nil && c.arrived[id] != 1:
			c.t.Errorf("call %d is answered and never arrived", id)
		case err != nil && fate.Of(err) == fate.Refused && c.arrived[id] != 0:
			c.t.Errorf("call %d was refused (%v) and arrived", id, err)
		case err != nil && fate.Of(err) != fate.Refused && !errors.Is(err, ErrDisconnected):
			c.t.Errorf("call %d ended with %v", id, err)
		}
		if err == nil {
			answered++
		}
	}
	return answered
}

func newChaos(t *testing.T) *chaos {
	return &chaos{t: t, last: map[uint64]uint64{}, arrived: map[uint64]int{}, done: map[uint64]int{}, errs: map[uint64]error{}}
}

func seeds(n uint64) []uint64 {
	if *seed != 0 {
		return []uint64{*seed}
	}
	var s []uint64
	for i := range n {
		s = append(s, i+1)
	}
	return s
}

func TestEveryCallCompletesOnceOnAnyNetwork(t *testing.T) {
	for _, s := range seeds(40) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(s, 0))
			n := peertest.NewNetwork()
			c := newChaos(t)
			o := memOptions(n, "b")
			o.Handlers[ClassForward] = c
			b, addr := node(t, o, "b:1")
			a, _ := node(t, memOptions(n, "a"), "a:1")
			p := a.Peer("b", ClassForward, addr)
			if s%2 == 0 {
				p.Hold()
			}
			const calls = 2000
			for id := range uint64(calls) {
				payload := append(numbered(id), make([]byte, rng.IntN(10)*rng.IntN(4<<10)))
				p.Go(uint8(rng.IntN(5)), payload, func(reply []byte, err error) { c.ended(id, reply, err) })
				switch rng.IntN(60) {
				case 0:
					n.Break("a", "b")
				case 1:
					n.SetLink("a", "b", peertest.Link{Delay: time.Duration(rng.IntN(50)) * time.Millisecond, Cut: rng.IntN(5) == 0, Block: rng.IntN(5) == 0})
				case 2:
					n.SetLink("b", "a", peertest.Link{Delay: time.Duration(rng.IntN(50)) * time.Millisecond, Cut: rng.IntN(5) == 0, Block: rng.IntN(5) == 0})
				case 3:
					time.Sleep(time.Duration(rng.IntN(6000)) * time.Millisecond)
				default:
					time.Sleep(time.Duration(rng.IntN(10)) * time.Millisecond)
				}
			}
			n.SetLink("a", "b", peertest.Link{})
			n.SetLink("b", "a", peertest.Link{})
			time.Sleep(time.Minute)
			if answered := c.judge(calls); answered < calls/20 {
				t.Errorf("only %d of %d calls were answered", answered, calls)
			}
			if _, err := p.Call(t.Context(), 0, numbered(calls)); err != nil {
				t.Errorf("after the heal: %v", err)
			}
			a.Close()
			b.Close()
			if t.Failed() {
				t.Logf("replay with -seed %d", s)
			}
		})
	}
}

// TestEveryCallCompletesOnceOverTCP is the same over loopback, where calls come
// from many goroutines and connections are closed under them.
func TestEveryCallCompletesOnceOverTCP(t *testing.T) {
	for _, s := range seeds(3) {
		c := newChaos(t)
		o := tcpOptions("b")
		o.Handlers[ClassForward] = c
		b, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		addr := serve(t, b, "127.0.0.1:0")
		o = tcpOptions("a")
		o.BackoffMin, o.BackoffMax = time.Millisecond, 2*time.Millisecond
		a, _ := node(t, o, "127.0.0.1:0")
		const callers, each = 8, 2000
		var wg sync.WaitGroup
		for g := range uint64(callers) {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(s, g))
				p := a.Peer("b", ClassForward, addr)
				defer p.Close()
				var calls sync.WaitGroup
				for i := range uint64(each) {
					id := g*each + i
					calls.Add(1)
					p.Go(uint8(rng.IntN(3)), append(numbered(id), make([]byte, rng.IntN(2)*rng.IntN(16<<10))), func(reply []byte, err error) {
						c.ended(id, reply, err)
						calls.Done()
					})
					switch rng.IntN(100) {
					case 0:
						if l := p.live.Load(); l != nil {
							l.conn.Close()
						}
					case 1:
						p.Call(t.Context(), uncounted, nil)
					}
				}
				calls.Wait()
			})
		}
		wg.Wait()
		t.Logf("seed %d: %d of %d answered", s, c.judge(callers*each), callers*each)
		a.Close()
		b.Close()
	}
}
