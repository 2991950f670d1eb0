package replication

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// busyLink is a Caller to a follower that drops requests as a connection with a full
// queue does: done gets the error only later, and requests behind the dropped one
// are sent.
type busyLink struct {
	link
	drop func(kind uint8) bool
	late time.Duration
}

func (l *busyLink) Go(kind uint8, payload [][]byte, done func([]byte, error)) {
	if l.drop(kind) {
		time.AfterFunc(l.late, func() { done(nil, errCut) })
		return
	}
	l.link.Go(kind, payload, done)
}

// ledger is the Positions of a follower: it lists the shares it accepted.
type ledger struct {
	mu   sync.Mutex
	took []string
	cuts []seq.Offset
}

func (n *ledger) Replace(snapshot []byte) error { return n.take("snapshot " + string(snapshot)) }

func (n *ledger) Advance(change []byte) error { return n.take("change " + string(change)) }

func (n *ledger) Update(update []byte) error { return n.take("update " + string(update)) }

func (n *ledger) Cut(end seq.Offset) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts = append(n.cuts, end)
	return nil
}

func (n *ledger) take(what string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.took = append(n.took, what)
	return nil
}

func (n *ledger) has(what string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Contains(n.took, what)
}

// sharingTerm is the part of a leader with one follower that concerns shares.
type sharingTerm struct {
	shares   Shares
	rep      *Replicator
	follower *Follower
	took     *ledger

	mu       sync.Mutex
	believed uint64
	session  uint64
}

func shareWith(t *testing.T, drop func(kind uint8) bool, late time.Duration) *sharingTerm {
	t.Helper()
	a, b := newReplica(t, "a"), newReplica(t, "b")
	if _, err := a.log.Writer(1); err != nil {
		t.Fatal(err)
	}
	x := &sharingTerm{follower: b.follower, took: &ledger{}}
	if err := b.follower.Adopt(Following{Epoch: 1, Positions: x.took}); err != nil {
		t.Fatal(err)
	}
	l := &busyLink{link: link{to: b.follower, delay: instant, up: true}, drop: drop, late: late}
	x.rep = NewReplicator(ReplicatorOptions{Log: a.log, Partition: Partition{1, 0}, Epoch: 1, Shares: &x.shares, Caller: l, Events: Events{
		Acked:      func(p Progress) { x.note(p.Session, p.Shares) },
		Forget:     func(session uint64) { x.note(session, 0) },
		Superseded: func(seq.Epoch) {},
	}}, Pace{Sync: true})
	t.Cleanup(func() { x.rep.Stop(); l.live.Wait() })
	return x
}

func (x *sharingTerm) note(session, shares uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if session > x.session {
		x.session, x.believed = session, 0
	}
	if session == x.session {
		x.believed = max(x.believed, shares)
	}
}

func (x *sharingTerm) counts() uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.believed
}

// TestSharesAfterGapDoNotCount: a request with a change or a snapshot is
// dropped, and later requests arrive. The leader must not count the later ones.
func TestSharesAfterGapDoNotCount(t *testing.T) {
	for _, kind := range []uint8{KindPositions, kindAdvance} {
		synctest.Test(t, func(t *testing.T) {
			dropped := false
			x := shareWith(t, func(k uint8) bool {
				drop := k == kind && !dropped
				dropped = dropped || drop
				return drop
			}, 300*time.Millisecond)
			x.shares.Snapshot([]byte("one"))
			x.rep.Connected()
			time.Sleep(50 * time.Millisecond)
			for _, c := range []string{"of channel A", "of channel B"} {
				x.shares.Change([]byte(c))
				x.rep.Share()
				time.Sleep(time.Millisecond)
			}
			for range 50 {
				time.Sleep(20 * time.Millisecond)
				for n, what := range []string{"snapshot one", "change of channel A", "change of channel B"} {
					if x.counts() >= uint64(n+1) && !x.took.has(what) {
						t.Fatalf("the leader counts share %d, and the follower has only %q", n+1, x.took.took)
					}
				}
			}
			if got := x.counts(); got != 3 || !x.took.has("change of channel A") {
				t.Fatalf("a second later the leader counts shares up to %d of 3; the follower took %q", got, x.took.took)
			}
		})
	}
}

// framed is a Caller that refuses too large requests, like a peer connection: see
// peer.ErrTooBig.
type framed struct {
	link
	limit   int
	largest int
}

var errTooBig = errors.New("the payload is over the limit of a frame")

func (l *framed) Go(kind uint8, payload [][]byte, done func([]byte, error)) {
	size := 0
	for _, p := range payload {
		size += len(p)
	}
	if l.largest = max(l.largest, size); size > l.limit {
		done(nil, errTooBig)
		return
	}
	l.link.Go(kind, payload, done)
}

// TestSnapshotOverFrameLimitArrives: positions of many deferred messages take
// more than a frame may. They are sent in pieces, and the later shares after
// them.
func TestSnapshotOverFrameLimitArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newReplica(t, "a"), newReplica(t, "b")
		if _, err := a.log.Writer(1); err != nil {
			t.Fatal(err)
		}
		took := &ledger{}
		if err := b.follower.Adopt(Following{Epoch: 1, Positions: took}); err != nil {
			t.Fatal(err)
		}
		var shares Shares
		l := &framed{link: link{to: b.follower, delay: instant, up: true}, limit: pieceBytes + 1<<10}
		var mu sync.Mutex
		counts := uint64(0)
		rep := NewReplicator(ReplicatorOptions{Log: a.log, Partition: Partition{1, 0}, Epoch: 1, Shares: &shares, Caller: l, Events: Events{
			Acked:      func(p Progress) { mu.Lock(); counts = max(counts, p.Shares); mu.Unlock() },
			Forget:     func(uint64) {},
			Superseded: func(seq.Epoch) {},
		}}, Pace{Sync: true})
		t.Cleanup(func() { rep.Stop(); l.live.Wait() })
		snapshot := bytes.Repeat([]byte("0123456789abcdef"), (5*pieceBytes+77)/16)
		shares.Snapshot(bytes.Clone(snapshot))
		shares.Update([]byte("more"))
		rep.Connected()
		time.Sleep(time.Second)
		rep.Stop()
		l.live.Wait()
		took.mu.Lock()
		defer took.mu.Unlock()
		if want := "snapshot " + string(snapshot); len(took.took) != 2 || took.took[0] != want || took.took[1] != "update more" {
			t.Fatalf("%d shares arrived of 2", len(took.took))
		}
		mu.Lock()
		defer mu.Unlock()
		if counts != 2 {
			t.Errorf("the leader counts %d shares, want 2", counts)
		}
		if l.largest > l.limit {
			t.Errorf("a request of %d bytes", l.largest)
		}
	})
}

// TestPiecesOfDifferentSnapshotsAreNotJoined: a newer snapshot begins while an older
// one is in progress, and a piece is dropped.
func TestPiecesOfDifferentSnapshotsAreNotJoined(t *testing.T) {
	r := newReplica(t, "b")
	took := &ledger{}
	if err := r.follower.Adopt(Following{Epoch: 1, Positions: took}); err != nil {
		t.Fatal(err)
	}
	h := header{Partition{1, 0}, 1}
	for i, step := range []struct {
		m    positions
		want outcome
	}{
		{positions{header: h, number: 3, total: 4, at: 0, piece: []byte("ab")}, outcomeOK},
		{positions{header: h, number: 4, total: 4, at: 2, piece: []byte("cd")}, outcomeMismatch}, // of another
		{positions{header: h, number: 4, total: 4, at: 0, piece: []byte("AB")}, outcomeOK},
		{positions{header: h, number: 4, total: 4, at: 3, piece: []byte("D")}, outcomeMismatch}, // after a gap
		{positions{header: h, number: 4, total: 4, at: 2, piece: []byte("CD")}, outcomeOK},
		{positions{header: h, number: 3, total: 4, at: 2, piece: []byte("cd")}, outcomeOK}, // older than the one it has
	} {
		if got := r.follower.replace(step.m).outcome; got != step.want {
			t.Errorf("step %d: outcome %d, want %d", i, got, step.want)
		}
	}
	if len(took.took) != 1 || took.took[0] != "snapshot ABCD" {
		t.Errorf("took %q", took.took)
	}
}

// TestFoldedSnapshotGoesOnlyWhereNeeded: a follower that has everything before
// the snapshot gets only the later shares.
func TestFoldedSnapshotGoesOnlyWhereNeeded(t *testing.T) {
	var s Shares
	s.Snapshot([]byte("one"))
	s.Update([]byte("two"))
	three := s.Update([]byte("three"))
	s.Change([]byte("four"))
	s.Fold(three, []byte("as of three"))
	s.Fold(1, []byte("late"))
	for so, want := range map[uint64]struct {
		kind uint8
		next uint64
		text string
	}{
		0: {KindPositions, 3, "as of three"}, 2: {KindPositions, 3, "as of three"},
		3: {kindAdvance, 4, "\x04\x00\x00\x00four"}, 4: {0, 4, ""},
	} {
		kind, payload, next := s.after(header{}, sent{number: so})
		text := ""
		if len(payload) > 1 {
			text = string(payload[1])
		}
		if kind != want.kind || next.number != want.next || text != want.text {
			t.Errorf("after %d: kind %d, %q, up to %d", so, kind, text, next.number)
		}
	}
}

// TestTruncationCutsThePositions: positions of truncated messages must not count for
// the messages that take their offsets. The follower then accepts the shares again.
func TestTruncationCutsThePositions(t *testing.T) {
	for _, reset := range []bool{false, true} {
		r := newReplica(t, "b")
		took := &ledger{}
		if err := r.follower.Adopt(Following{Epoch: 1, Positions: took}); err != nil {
			t.Fatal(err)
		}
		h := header{Partition{1, 0}, 1}
		share := positions{header: h, number: 3, total: 1, piece: []byte("x")}
		for range 2 {
			if got := r.follower.replace(share).outcome; got != outcomeOK {
				t.Fatal(got)
			}
		}
		end := seq.Offset(0)
		if reset {
			end = 7
		}
		if got := r.follower.truncate(truncate{header: h, to: point{End: end}, reset: reset}).outcome; got != outcomeOK {
			t.Fatal(got)
		}
		if got := r.follower.replace(share).outcome; got != outcomeOK {
			t.Fatal(got)
		}
		if !slices.Equal(took.cuts, []seq.Offset{end}) || len(took.took) != 2 {
			t.Errorf("cut %v, took %q", took.cuts, took.took)
		}
	}
}

// TestNewerSnapshotStartsFromItsFirstPiece: a part of an older one was already
// sent.
func TestNewerSnapshotStartsFromItsFirstPiece(t *testing.T) {
	var s Shares
	s.Snapshot(make([]byte, 2*pieceBytes))
	_, _, so := s.after(header{}, sent{})
	if so.number != 0 || so.at != pieceBytes {
		t.Fatalf("%+v", so)
	}
	s.Snapshot(make([]byte, 3*pieceBytes))
	_, payload, so := s.after(header{}, so)
	if m, err := decodePositions(bytes.Join(payload, nil)); err != nil || m.at != 0 || m.number != 2 || m.total != 3*pieceBytes {
		t.Errorf("number %d of %d bytes from %d, %v", m.number, m.total, m.at, err)
	}
	if so.base != 2 || so.at != pieceBytes {
		t.Errorf("%+v", so)
	}
}
