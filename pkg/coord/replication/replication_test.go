package replication

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

var errCut = errors.New("cut")

// replica is one copy of a partition.
type replica struct {
	name     string
	log      *commitlog.Log
	writer   *commitlog.Writer // while it leads
	follower *Follower
}

func newReplica(t *testing.T, name string) *replica {
	t.Helper()
	fs := vfs.NewMem()
	if err := fs.MkdirAll(name); err != nil {
		t.Fatal(err)
	}
	l, _, err := commitlog.Open(fs, name, commitlog.Options{SegmentBytes: 4 << 10, FillBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{name: name, log: l, follower: NewFollower(l, limit.Default().Put, func(error) {}, nil)}
	t.Cleanup(func() { r.follower.Close(); l.Close() })
	return r
}

// link is a Caller to a follower: requests arrive in order, after a delay, while
// it is up.
type link struct {
	to    *Follower
	delay func() time.Duration

	mu   sync.Mutex
	up   bool
	last time.Time // when the last request arrives
	puts int       // requests with batches, or with the committed end alone
	live sync.WaitGroup
}

func (l *link) Go(kind uint8, payload [][]byte, done func([]byte, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := bytes.Join(payload, nil)
	if kind == KindPut {
		l.puts++
	}
	at := time.Now().Add(l.delay())
	if at.Before(l.last) {
		at = l.last
	}
	l.last = at.Add(1)
	up := l.up
	l.live.Add(1)
	time.AfterFunc(time.Until(l.last), func() {
		defer l.live.Done()
		if !up || !l.isUp() {
			done(nil, errCut)
			return
		}
		answered := make(chan []byte, 1)
		l.to.Handle(nil, kind, p, func(reply []byte) { answered <- reply })
		reply := <-answered
		if !l.isUp() {
			done(nil, errCut)
			return
		}
		done(reply, nil)
	})
}

func (l *link) sent() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.puts
}

func (l *link) isUp() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.up
}

func (l *link) set(up bool) {
	l.mu.Lock()
	l.up = up
	l.mu.Unlock()
}

// term is a leadership with its followers.
type term struct {
	leader *replica
	links  []*link
	reps   []*Replicator

	mu       sync.Mutex
	acked    []seq.Offset
	sessions []uint64
}

func lead(t *testing.T, leader *replica, epoch seq.Epoch, followers []*replica, delay func() time.Duration) *term {
	t.Helper()
	leader.follower.Yield(epoch)
	w, err := leader.log.Writer(epoch)
	if err != nil {
		t.Fatal(err)
	}
	leader.writer = w
	x := &term{leader: leader, acked: make([]seq.Offset, len(followers)), sessions: make([]uint64, len(followers))}
	for i, f := range followers {
		if err := f.follower.Adopt(Following{Epoch: epoch}); err != nil {
			t.Fatal(err)
		}
		l := &link{to: f.follower, delay: delay, up: true}
		x.links = append(x.links, l)
		x.reps = append(x.reps, NewReplicator(ReplicatorOptions{Log: leader.log, Partition: Partition{1, 0}, Epoch: epoch, Caller: l, Events: Events{
			Acked:      func(p Progress) { x.note(i, p.Session, p.End) },
			Forget:     func(session uint64) { x.note(i, session, 0) },
			Superseded: func(e seq.Epoch) {},
		}}, Pace{Sync: true}))
	}
	return x
}

func (x *term) note(i int, session uint64, end seq.Offset) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if end == 0 && session > x.sessions[i] {
		x.sessions[i], x.acked[i] = session, 0
	}
	if session == x.sessions[i] {
		x.acked[i] = max(x.acked[i], end)
	}
}

func (x *term) ackedBy(i int) seq.Offset {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.acked[i]
}

func (x *term) append(t *testing.T, n int, text string) {
	t.Helper()
	b := new(commitlog.Builder)
	for i := range n {
		body := fmt.Sprintf("%s %d", text, i)
		copy(b.Next(len(body)), body)
	}
	batch, err := x.leader.writer.Append(b, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range x.reps {
		r.Push(batch)
	}
}

func (x *term) stop() {
	for i, r := range x.reps {
		r.Stop()
		x.links[i].live.Wait()
	}
}

func same(t *testing.T, a, b *replica) {
	t.Helper()
	if a.log.Start() != b.log.Start() || a.log.End() != b.log.End() {
		t.Fatalf("%s is [%d,%d), %s is [%d,%d)", a.name, a.log.Start(), a.log.End(), b.name, b.log.Start(), b.log.End())
	}
	x, errX := a.log.ReadRaw(a.log.Start(), 1<<30, nil)
	y, errY := b.log.ReadRaw(b.log.Start(), 1<<30, nil)
	if errX != nil || errY != nil || !bytes.Equal(x, y) {
		t.Fatalf("%s and %s hold different bytes (%v, %v)", a.name, b.name, errX, errY)
	}
}

func instant() time.Duration { return 0 }

func TestFollowerKeepsUpAndCatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newReplica(t, "a"), newReplica(t, "b")
		x := lead(t, a, 1, []*replica{b}, instant)
		defer x.stop()
		x.append(t, 3, "before")
		x.reps[0].Connected()
		time.Sleep(time.Second)
		for i := range 200 {
			x.append(t, 5, fmt.Sprint("steady", i))
		}
		time.Sleep(time.Second)
		same(t, a, b)
		if got := x.ackedBy(0); got != a.log.End() {
			t.Fatalf("acknowledged %d of %d", got, a.log.End())
		}
		x.reps[0].Disconnected()
		if x.ackedBy(0) != 0 {
			t.Fatal("a lost session is still believed")
		}
		for i := range 500 {
			x.append(t, 20, fmt.Sprint("away", i))
		}
		x.reps[0].Connected()
		time.Sleep(time.Second)
		same(t, a, b)
	})
}

func TestCommittedEndReachesAnIdleFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newReplica(t, "a"), newReplica(t, "b")
		x := lead(t, a, 1, []*replica{b}, instant)
		defer x.stop()
		x.reps[0].Connected()
		x.append(t, 4, "m")
		time.Sleep(time.Second)
		if b.log.CommittedEnd() != 0 {
			t.Fatal("appending is not committing")
		}
		a.log.Commit(4)
		x.reps[0].Tell(false, 0)
		time.Sleep(time.Second)
		if got := b.log.CommittedEnd(); got != 4 {
			t.Fatalf("the follower knows %d as committed, want 4", got)
		}
	})
}

func TestDeposedLeadersTailIsTruncated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newReplica(t, "a"), newReplica(t, "b")
		x := lead(t, a, 1, []*replica{b}, instant)
		x.reps[0].Connected()
		x.append(t, 2, "both")
		time.Sleep(time.Second)
		x.links[0].set(false)
		x.append(t, 3, "only a")
		time.Sleep(time.Second)
		x.stop()

		y := lead(t, b, 2, []*replica{a}, instant)
		defer y.stop()
		y.append(t, 1, "b leads")
		y.reps[0].Connected()
		time.Sleep(time.Second)
		same(t, a, b)
		if a.log.End() != 3 {
			t.Fatalf("the log ends at %d, want 3", a.log.End())
		}
	})
}

func TestFollowerRefusesAnOlderLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newReplica(t, "a"), newReplica(t, "b")
		var newer atomic.Uint64
		if err := b.follower.Adopt(Following{Epoch: 5}); err != nil {
			t.Fatal(err)
		}
		w, err := a.log.Writer(4)
		if err != nil {
			t.Fatal(err)
		}
		l := &link{to: b.follower, delay: instant, up: true}
		r := NewReplicator(ReplicatorOptions{Log: a.log, Partition: Partition{1, 0}, Epoch: 4, Caller: l, Events: Events{
			Acked:  func(Progress) { t.Error("an older leader was acknowledged") },
			Forget: func(uint64) {}, Superseded: func(e seq.Epoch) { newer.Store(uint64(e)) },
		}}, Pace{Sync: true})
		defer r.Stop()
		bu := new(commitlog.Builder)
		copy(bu.Next(1), "x")
		if _, err := w.Append(bu, 1); err != nil {
			t.Fatal(err)
		}
		r.Connected()
		time.Sleep(time.Second)
		if newer.Load() != 5 || b.log.End() != 0 {
			t.Fatalf("superseded by %d, log end %d", newer.Load(), b.log.End())
		}
		if err := b.follower.Adopt(Following{Epoch: 4}); err == nil {
			t.Fatal("an older epoch was adopted")
		}
	})
}

func TestFollowerBehindLeadersStartIsReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newReplica(t, "a"), newReplica(t, "b")
		x := lead(t, a, 1, []*replica{b}, instant)
		defer x.stop()
		x.reps[0].Connected()
		x.append(t, 2, "early")
		time.Sleep(time.Second)
		x.reps[0].Disconnected()
		for i := range 100 {
			x.append(t, 10, fmt.Sprint("much", i))
		}
		if _, err := a.writer.Sync(); err != nil {
			t.Fatal(err)
		}
		a.log.Commit(a.log.End())
		if n, err := a.log.Retain(commitlog.Retention{Floor: a.log.End()}); err != nil || n == 0 {
			t.Fatalf("retention dropped %d, %v", n, err)
		}
		x.reps[0].Connected()
		time.Sleep(time.Second)
		same(t, a, b)
		if b.log.Start() == 0 {
			t.Fatal("the follower did not begin with an empty log")
		}
	})
}

// TestFollowerEmptiedByRetentionContinues: it has no batch left to compare,
// and the leader must not ask it to go below its committed end.
func TestFollowerEmptiedByRetentionContinues(t *testing.T) {
	for _, tail := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a, b := newReplica(t, "a"), newReplica(t, "b")
			x := lead(t, a, 1, []*replica{b}, instant)
			x.reps[0].Connected()
			x.append(t, 15, "gone")
			time.Sleep(time.Second)
			if _, err := a.writer.Sync(); err != nil {
				t.Fatal(err)
			}
			a.log.Commit(15)
			x.reps[0].Tell(false, 0)
			time.Sleep(time.Second)
			if _, err := b.log.Retain(commitlog.Retention{Floor: 15, Last: true}); err != nil || b.log.Start() != 15 {
				t.Fatalf("the follower's log starts at %d, %v", b.log.Start(), err)
			}
			if tail { // and it has something that the next leader has not
				c := newReplica(t, "c")
				y := lead(t, a, 2, []*replica{b, c}, instant)
				y.reps[0].Connected()
				y.append(t, 1, "only b")
				time.Sleep(time.Second)
				y.stop()
				if err := a.writer.TruncateTo(15); err != nil {
					t.Fatal(err)
				}
			}
			x.stop()
			z := lead(t, a, 3, []*replica{b}, instant)
			defer z.stop()
			z.append(t, 2, "new")
			z.reps[0].Connected()
			time.Sleep(time.Second)
			if got := z.ackedBy(0); got != 17 {
				t.Fatalf("acknowledged %d, want 17", got)
			}
			check(t, &replica{name: "b", log: b.log}, nil)
			if got, want := fmt.Sprintf("%q", bodies(t, b, 17)), `["new 0" "new 1"]`; got != want {
				t.Errorf("the follower holds %s", got)
			}
		})
	}
}

func TestRepeatedPutIsIdempotentAndDifferentOneRefused(t *testing.T) {
	b := newReplica(t, "b")
	other := newReplica(t, "other")
	if err := b.follower.Adopt(Following{Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	raw := func(text string) []byte {
		w, err := other.log.Writer(1)
		if err != nil {
			t.Fatal(err)
		}
		bu := new(commitlog.Builder)
		copy(bu.Next(len(text)), text)
		batch, err := w.Append(bu, 1)
		if err != nil {
			t.Fatal(err)
		}
		p := bytes.Clone(batch.Raw())
		if err := w.TruncateTo(0); err != nil {
			t.Fatal(err)
		}
		return p
	}
	send := func(p []byte) answer {
		got := make(chan []byte, 1)
		b.follower.Handle(nil, KindPut, append(put{header: header{Partition{1, 0}, 1}, sync: true}.appendHead(nil), p...), func(r []byte) { got <- r })
		a, err := decodeAnswer(<-got)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	first := raw("first")
	for range 3 {
		if a := send(first); a.outcome != outcomeOK || a.end != 1 {
			t.Fatalf("answer %+v", a)
		}
	}
	if a := send(raw("other")); a.outcome != outcomeMismatch {
		t.Fatalf("another batch at the same offset: %+v", a)
	}
	if b.log.End() != 1 {
		t.Fatalf("log end %d", b.log.End())
	}
}

// TestReplicasConverge runs random leaderships over three
// replicas with sessions that come and go, and checks that what was committed
// is in every later log and that all logs are equal at the end.
func TestReplicasConverge(t *testing.T) {
	first := testrand.Seed(t)
	for i := range uint64(60) {
		seed := first + i
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { converge(t, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

func converge(t *testing.T, rng *rand.Rand) {
	replicas := []*replica{newReplica(t, "a"), newReplica(t, "b"), newReplica(t, "c")}
	var mu sync.Mutex // guards delays: links ask from many goroutines
	delays := rand.New(rand.NewPCG(rng.Uint64(), 0))
	delay := func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(delays.IntN(3000)) * time.Microsecond
	}
	var committed [][]byte // bodies, by offset
	for epoch := seq.Epoch(1); epoch < 8; epoch++ {
		leader := mostComplete(rng, replicas)
		var followers []*replica
		for _, r := range replicas {
			if r != leader {
				followers = append(followers, r)
			}
		}
		x := lead(t, leader, epoch, followers, delay)
		check(t, leader, committed)
		for _, r := range x.reps {
			if rng.IntN(4) > 0 {
				r.Connected()
			}
		}
		for step := range 30 {
			i := rng.IntN(2)
			switch rng.IntN(8) {
			case 0:
				x.links[i].set(false)
				x.reps[i].Disconnected()
			case 1:
				x.links[i].set(true)
				x.reps[i].Connected()
			case 2, 3:
				time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
			default:
				x.append(t, 1+rng.IntN(4), fmt.Sprintf("epoch %d step %d", epoch, step))
			}
			// committed: all three hold it, and have acknowledged it to this
			// leader
			if c := min(x.ackedBy(0), x.ackedBy(1), leader.log.End()); c > leader.log.CommittedEnd() {
				leader.log.Commit(c)
				committed = bodies(t, leader, c)
				x.reps[0].Tell(false, 0)
			}
		}
		if rng.IntN(3) == 0 {
			for i := range x.reps {
				x.links[i].set(true)
				x.reps[i].Connected()
			}
			time.Sleep(time.Second)
		}
		x.stop()
	}
	leader := mostComplete(rng, replicas)
	var followers []*replica
	for _, r := range replicas {
		if r != leader {
			followers = append(followers, r)
		}
	}
	y := lead(t, leader, 100, followers, instant)
	defer y.stop()
	y.append(t, 1, "last")
	for _, r := range y.reps {
		r.Connected()
	}
	time.Sleep(5 * time.Second)
	check(t, leader, committed)
	same(t, leader, followers[0])
	same(t, leader, followers[1])
}

// mostComplete returns a replica that holds everything committed, like an
// election from the in-sync replicas: here all three are in sync.
func mostComplete(rng *rand.Rand, all []*replica) *replica { return all[rng.IntN(len(all))] }

func bodies(t *testing.T, r *replica, end seq.Offset) [][]byte {
	t.Helper()
	var all [][]byte
	for o := r.log.Start(); o < end; {
		b, err := batchAt(r.log, o)
		if err != nil {
			t.Fatal(err)
		}
		records := b.Records(b.First())
		for {
			at, p, ok := records.Next()
			if !ok || at >= end {
				break
			}
			all = append(all, bytes.Clone(p))
		}
		o = b.End()
	}
	return all
}

// check fails if a log lacks a committed entry.
func check(t *testing.T, r *replica, committed [][]byte) {
	t.Helper()
	if int(r.log.End()) < len(committed) {
		t.Fatalf("%s ends at %d; %d were committed", r.name, r.log.End(), len(committed))
	}
	for o, p := range bodies(t, r, seq.Offset(len(committed))) {
		if !bytes.Equal(p, committed[o]) {
			t.Fatalf("%s holds %q at %d; %q was committed", r.name, p, o, committed[o])
		}
	}
}

func TestCommonFindsWhereLogsDiverge(t *testing.T) {
	h := func(end seq.Offset, epochs ...seq.Offset) history {
		x := history{end: end}
		for i := 0; i+1 < len(epochs); i += 2 {
			x.epochs = append(x.epochs, commitlog.EpochStart{Epoch: seq.Epoch(epochs[i]), Start: epochs[i+1]})
		}
		return x
	}
	for _, tc := range []struct {
		name string
		l, f history
		want seq.Offset
	}{
		{"both empty", h(0), h(0), 0},
		{"the follower is behind", h(10, 1, 0), h(4, 1, 0), 4},
		{"the follower has more of the epoch", h(4, 1, 0, 2, 4), h(9, 1, 0), 4},
		{"the follower has an epoch that the leader never saw", h(8, 1, 0, 3, 5), h(9, 1, 0, 2, 4), 4},
		{"the leader has one in between", h(9, 1, 0, 2, 4, 3, 6), h(5, 1, 0), 4},
		{"nothing in common", h(5, 3, 0), h(5, 2, 0), 0},
	} {
		if got := common(tc.l, tc.f); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}
