package replication

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

var errBusy = errors.New("too much waiting to be sent to the node")

// frameBytes is the number of bytes that a connection adds to a request.
const frameBytes = 24

// slowConnection is the one connection between two nodes. It writes at a rate, and
// refuses a call while the requests that are not yet written, or not yet answered,
// fill the limits of a peer connection.
type slowConnection struct {
	rate     int // bytes a second
	maxBytes int // waiting, before one more call of any size
	maxCalls int // without an answer

	running sync.WaitGroup

	mu      sync.Mutex // guards what follows
	free    time.Time  // when everything that waits is written
	waiting int
	calls   int
	largest int // the most that waited
	most    int // calls without an answer
	busy    int // calls refused
}

// lane is the part of the connection that one partition uses.
type lane struct {
	conn *slowConnection
	to   *Follower

	mu   sync.Mutex
	mute bool     // the follower takes requests and does not answer
	held []func() // answers of a mute follower
}

func (l *lane) Go(kind uint8, payload [][]byte, done func([]byte, error)) {
	p := bytes.Join(payload, nil)
	size := len(p) + frameBytes
	c := l.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running.Add(1)
	if c.waiting >= c.maxBytes || c.calls >= c.maxCalls {
		c.busy++
		time.AfterFunc(time.Millisecond, func() { defer c.running.Done(); done(nil, errBusy) })
		return
	}
	c.waiting += size
	c.calls++
	c.largest, c.most = max(c.largest, c.waiting), max(c.most, c.calls)
	if now := time.Now(); c.free.Before(now) {
		c.free = now
	}
	c.free = c.free.Add(max(1, time.Duration(size)*time.Second/time.Duration(c.rate)))
	time.AfterFunc(time.Until(c.free), func() {
		c.mu.Lock()
		c.waiting -= size
		c.mu.Unlock()
		l.to.Handle(nil, kind, p, func(reply []byte) { l.answer(kind, func() { defer c.running.Done(); c.answered(); done(reply, nil) }) })
	})
}

func (c *slowConnection) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls--
}

// answer passes an answer on, unless the follower is mute.
func (l *lane) answer(kind uint8, f func()) {
	l.mu.Lock()
	if l.mute && kind == KindPut {
		l.held = append(l.held, f)
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	f()
}

func (l *lane) setMute(mute bool) {
	l.mu.Lock()
	l.mute = mute
	held := l.held
	l.held = nil
	l.mu.Unlock()
	for _, f := range held {
		f()
	}
}

// saturated is one of many partitions that a node leads, all with a follower on
// the same other node.
type saturated struct {
	log      *commitlog.Log
	writer   *commitlog.Writer
	follower *replica
	lane     *lane
	rep      *Replicator
	shares   Shares

	mu     sync.Mutex
	resets int // sessions that ended by themselves
	acked  seq.Offset
}

func (s *saturated) note(session uint64, end seq.Offset) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if end == 0 && session > 1 {
		s.resets++
	}
	s.acked = max(s.acked, end)
}

// behind returns how many messages the follower is not known to have.
func (s *saturated) behind() seq.Offset {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.End() - s.acked
}

func (s *saturated) append(t *testing.T, size int) {
	t.Helper()
	b := new(commitlog.Builder)
	clear(b.Next(size))
	batch, err := s.writer.Append(b, 1)
	if err != nil {
		t.Fatal(err)
	}
	s.rep.Push(batch)
}

// nodePair starts n partitions whose followers share one connection.
func nodePair(t *testing.T, n int, conn *slowConnection, sizes limit.Sizes) []*saturated {
	t.Helper()
	all := make([]*saturated, n)
	credit := NewCredit(sizes)
	for i := range all {
		fs := vfs.NewMem()
		if err := fs.MkdirAll("leader"); err != nil {
			t.Fatal(err)
		}
		l, _, err := commitlog.Open(fs, "leader", commitlog.Options{SegmentBytes: 1 << 20, FillBytes: -1})
		if err != nil {
			t.Fatal(err)
		}
		s := &saturated{log: l, follower: newReplica(t, "follower")}
		if s.writer, err = l.Writer(1); err != nil {
			t.Fatal(err)
		}
		if err := s.follower.follower.Adopt(Following{Epoch: 1, Positions: &ledger{}}); err != nil {
			t.Fatal(err)
		}
		s.lane = &lane{conn: conn, to: s.follower.follower}
		s.rep = NewReplicator(ReplicatorOptions{
			Log: l, Partition: Partition{1, i}, Epoch: 1, Caller: s.lane, Sizes: sizes, Shares: &s.shares, Credit: credit,
			Events: Events{
				Acked:      func(p Progress) { s.note(0, p.End) },
				Forget:     func(session uint64) { s.note(session, 0) },
				Superseded: func(seq.Epoch) {},
			},
		}, Pace{Sync: true})
		all[i] = s
		t.Cleanup(func() { l.Close() })
	}
	t.Cleanup(func() {
		for _, s := range all {
			s.lane.setMute(false)
			s.rep.Stop()
		}
		conn.running.Wait()
	})
	return all
}

// TestLoadAloneResetsNoSession: many partitions between two nodes have more to send
// than their connection can queue. All of them make progress, and no call is
// refused, whatever the sizes of the batches.
func TestLoadAloneResetsNoSession(t *testing.T) {
	const partitions = 100
	sizes := limit.Of(64 << 10)
	for _, batch := range []struct {
		name     string
		size     func(*rand.Rand) int
		n        int
		maxCalls int
	}{
		{"many calls", func(*rand.Rand) int { return 10 }, 300, 1500},
		{"chunks", func(*rand.Rand) int { return 2000 }, 50, 1 << 16},
		{"some large", func(r *rand.Rand) int {
			if r.IntN(20) == 0 {
				return sizes.Group - 200
			}
			return 100
		}, 20, 1 << 16},
	} {
		t.Run(batch.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
				conn := &slowConnection{rate: 1 << 20, maxBytes: sizes.Group/2 + sizes.Frame, maxCalls: batch.maxCalls}
				all := nodePair(t, partitions, conn, sizes)
				for _, s := range all {
					s.shares.Snapshot(bytes.Repeat([]byte("x"), 3000))
					s.rep.Connected()
				}
				time.Sleep(time.Minute)
				for i := range batch.n {
					for _, s := range all {
						s.append(t, batch.size(random))
						if i%10 == 0 {
							s.shares.Change(fmt.Appendf(nil, "change %d", i))
							s.rep.Share()
						}
					}
				}
				time.Sleep(10 * time.Minute)
				resets, behind := 0, 0
				for _, s := range all {
					s.mu.Lock()
					resets += s.resets
					s.mu.Unlock()
					if s.behind() > 0 {
						behind++
					}
				}
				if used, _ := all[0].rep.o.Credit.Usage(); used != 0 {
					t.Errorf("%d bytes of the credit are in use when all is answered", used)
				}
				conn.mu.Lock()
				defer conn.mu.Unlock()
				if over := conn.largest - sizes.Pair - sizes.Frame; over > partitions*100 {
					t.Errorf("%d bytes waited, %d too many", conn.largest, over)
				}
				if conn.busy > 0 || resets > 0 || behind > 0 {
					t.Errorf("%d calls found the connection's queue full, which reset %d sessions; %d of %d followers are behind; up to %d bytes waited, and %d calls",
						conn.busy, resets, behind, partitions, conn.largest, conn.most)
				}
			})
		})
	}
}

// TestFollowersWithoutAnswersLeaveCreditForOthers: requests to followers that do not
// answer do not use up the credit. The end of a session does not release their credit:
// the requests may still wait in the connection.
func TestFollowersWithoutAnswersLeaveCreditForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sizes := limit.Of(64 << 10)
		conn := &slowConnection{rate: 10 << 20, maxBytes: sizes.Group/2 + sizes.Frame, maxCalls: 1 << 16}
		all := nodePair(t, 21, conn, sizes)
		healthy, silent := all[0], all[1:]
		credit := healthy.rep.o.Credit
		for _, s := range all {
			s.rep.Connected()
		}
		time.Sleep(time.Second)
		for _, s := range silent {
			s.lane.setMute(true)
			for range 50 {
				s.append(t, 400)
			}
		}
		time.Sleep(time.Minute)
		used, _ := credit.Usage()
		if used < sizes.Pair/2 || used >= sizes.Pair {
			t.Errorf("followers that do not answer hold %d bytes of %d", used, sizes.Pair)
		}
		for range 100 {
			healthy.append(t, 400)
		}
		time.Sleep(10 * time.Second)
		if n := healthy.behind(); n > 0 {
			t.Errorf("beside them a follower that answers lacks %d messages", n)
		}
		for _, s := range silent {
			_, p, _ := s.rep.State()
			s.rep.retry(p.Session, false, "a test")
		}
		if now, _ := credit.Usage(); now < used {
			t.Errorf("%d bytes were given back before their calls ended", used-now)
		}
		for _, s := range silent[:10] {
			s.rep.Stop()
		}
		for _, s := range silent {
			s.lane.setMute(false)
		}
		time.Sleep(time.Minute)
		for _, s := range silent[10:] {
			if n := s.behind(); n > 0 {
				t.Errorf("a follower that answers again lacks %d messages", n)
			}
		}
		if used, _ := credit.Usage(); used != 0 || waiting(credit) != 0 {
			t.Errorf("at the end %d bytes are in use, and %d wait", used, waiting(credit))
		}
	})
}

func waiting(c *Credit) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.line)
}

// TestCreditIsGrantedInTurn: random senders reserve, spend, give back and cancel. No
// sender exceeds its credit, all waiting senders are served in order, and no credit is
// lost.
func TestCreditIsGrantedInTurn(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a test
		c := NewCredit(limit.Of(64 << 10))
		senders := make([]*sender, 20)
		spent := map[*sender][]int{}
		for i := range senders {
			senders[i] = c.sender(func() {})
		}
		for step := range 2000 {
			s := senders[random.IntN(len(senders))]
			before, held, line := c.used-s.reserved, s.held-s.reserved, len(c.line)
			switch n := random.IntN(4000); random.IntN(4) {
			case 0, 1:
				reserved := s.reserved
				if s.need == 0 && s.claim(n) {
					spent[s] = append(spent[s], n)
					if reserved < n+c.request && before+creditShare*held >= c.limit {
						t.Fatalf("seed %d, step %d: a sender took %d bytes while it held %d and %d of %d were in use", seed, step, n, held, before, c.limit)
					}
				} else if s.need == 0 {
					t.Fatalf("seed %d, step %d: a sender got nothing and does not wait", seed, step)
				}
			case 2:
				if k := len(spent[s]); k > 0 {
					s.giveBack(spent[s][0])
					spent[s] = spent[s][1:]
				}
			default:
				if random.IntN(5) == 0 {
					s.cancel()
				}
				if line == 0 && s.spend(n) {
					spent[s] = append(spent[s], n)
				}
			}
			for _, w := range c.line {
				if w.need == 0 || w.reserved > 0 || c.used < c.limit && w.mayTakeLocked() {
					t.Fatalf("seed %d, step %d: a sender that holds %d waits for %d while %d of %d are in use", seed, step, w.held, w.need, c.used, c.limit)
				}
			}
		}
		for _, s := range senders {
			for _, n := range spent[s] {
				s.giveBack(n)
			}
			s.cancel()
		}
		for _, s := range senders {
			s.cancel() // credit granted meanwhile
		}
		if c.used != 0 || len(c.line) != 0 {
			t.Fatalf("seed %d: at the end %d bytes are in use, and %d wait", seed, c.used, len(c.line))
		}
	}
}

// TestCreditGoesToFirstWaiter: a sender that returns does not overtake the
// others.
func TestCreditGoesToFirstWaiter(t *testing.T) {
	c := NewCredit(limit.Of(64 << 10))
	full, a, b := c.sender(func() {}), c.sender(func() {}), c.sender(func() {})
	if !full.claim(c.limit) {
		t.Fatal("no credit at the start")
	}
	if a.claim(c.limit) || b.claim(10) {
		t.Fatal("more than there is")
	}
	full.giveBack(c.limit)
	if a.need != 0 || a.reserved == 0 || b.need == 0 {
		t.Errorf("the first waits for %d and has %d, the second waits for %d", a.need, a.reserved, b.need)
	}
	a.cancel()
	if b.need != 0 {
		t.Error("the second still waits when the first has left")
	}
	if full.claim(c.limit); c.used < c.limit {
		t.Error("a request without a limit was not counted")
	}
	if a.claim(0) || full.spend(0) {
		t.Error("more than there is")
	}
}
