package topic

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/advance"
	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

func sampleUpdate() update {
	at := seq.Offset(300)
	return update{
		stamp: stampOf(3, 7), removed: []string{"gone"},
		header: Snapshot{BacklogFrom: 5, Addressed: 4, PausedAt: &at, Lost: true, Channels: []ChannelPosition{{Name: "w", Version: 2, Position: channel.Position{Floor: 9}}}},
		changed: []channelChange{{name: "c", version: 4, moves: 6, change: channel.Change{
			Position: channel.Position{Floor: 20, Attempted: []channel.Attempt{{Offset: 21, Attempts: 2}}},
			Unmarked: []channel.Range{{From: 22, End: 30}},
		}}},
	}
}

const sampleUpdateHex = "04" + "8780808030" + "03" + "05" + "04" + "ac02" + "01" + "04" + "676f6e65" +
	"01" + "01" + "77" + "02" + "00" + "05" + "0309000000" +
	"01" + "01" + "63" + "04" + "06" + "0b" + "07" + "03140000010102" + "01" + "0208"

func TestUpdateIsGolden(t *testing.T) {
	u := sampleUpdate()
	data, err := u.encode()
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(data); got != sampleUpdateHex {
		t.Errorf("encoded\n%s, want\n%s", got, sampleUpdateHex)
	}
	got, err := decodeUpdate(data)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := got.encode(); !bytes.Equal(again, data) {
		t.Errorf("%x encodes as %x", data, again)
	}
	for n := range data {
		if _, err := decodeUpdate(data[:n]); !errors.Is(err, errBadUpdate) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
}

func FuzzUpdate(f *testing.F) {
	u := sampleUpdate()
	data, _ := u.encode()
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		u, err := decodeUpdate(data)
		if err != nil {
			return
		}
		m := mirror{snap: sampleSnapshot(3)}
		m.update(u)
		image, err := appendPositions(nil, 1, *m.snapshot())
		if err != nil {
			return // a name that is too long was never written
		}
		if _, _, err := decodePositions(image); err != nil {
			t.Errorf("after %x: %v", data, err)
		}
	})
}

// history is a random history of a partition whose positions are stored as
// updates, with what its channels have at each moment.
type history struct {
	*bench
	rng     *rand.Rand
	readers map[string]*reader
	flying  map[string][]seq.Offset
	version uint64
}

func newHistory(t *testing.T, rng *rand.Rand, disk vfs.FS) *history {
	b := &bench{t: t, fs: disk, now: t0}
	b.open()
	h := &history{bench: b, rng: rng, readers: map[string]*reader{}, flying: map[string][]seq.Offset{}}
	b.p.collector.many = 1
	return h
}

// live returns the positions as the channels have them now.
func (h *history) live() Snapshot {
	s := Snapshot{BacklogFrom: h.p.backlog}
	now := h.p.o.Now()
	for _, c := range h.p.Channels() {
		s.Channels = append(s.Channels, ChannelPosition{c.name, c.version, c.moves, c.state.Position(now, h.p.o.Ages.Wall(now))})
	}
	slices.SortFunc(s.Channels, func(a, b ChannelPosition) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	return s
}

func (h *history) step() {
	h.now = h.now.Add(time.Second)
	name := fmt.Sprint("c", h.rng.IntN(3))
	r := h.readers[name]
	if r == nil {
		h.version++
		h.readers[name] = h.join(h.channel(name, h.version))
		return
	}
	switch h.rng.IntN(12) {
	case 0, 1:
		h.publish("x", "y", "z")
	case 2, 3, 4:
		_, err := r.Take(h.now, 1+h.rng.IntN(6), func(d *Delivery) error {
			h.flying[name] = append(h.flying[name], d.ID.Offset())
			return nil
		})
		if err != nil {
			h.t.Fatal(err)
		}
	case 5, 6, 7, 8:
		if n := len(h.flying[name]); n > 0 {
			i := h.rng.IntN(n)
			o := h.flying[name][i]
			h.flying[name] = slices.Delete(h.flying[name], i, i+1)
			if h.rng.IntN(2) == 0 {
				_ = r.Finish(o)
			} else {
				_ = r.Requeue(o, h.now, time.Duration(h.rng.IntN(100))*time.Second)
			}
		}
	case 9:
		h.p.Channel(name).Tick(h.now)
	case 10:
		if h.rng.IntN(4) == 0 {
			_ = h.p.Channel(name).Seek(seq.Offset(h.rng.IntN(int(h.log.End()) + 1)))
			h.flying[name] = nil
		}
	case 11:
		if h.rng.IntN(6) == 0 {
			_ = h.p.RemoveChannel(name)
			delete(h.readers, name)
			h.flying[name] = nil
		}
	}
}

// finishedBeyond returns offsets that are finished in a and not in b, which is a
// position of the same channel after as many moves.
func finishedBeyond(a, b *Snapshot) string {
	for _, x := range a.Channels {
		for _, y := range b.Channels {
			if x.Name != y.Name || x.Version != y.Version || x.Moves != y.Moves {
				continue
			}
			p, q := channel.Restore(x.Position, false, t0, 0), channel.Restore(y.Position, false, t0, 0)
			for o := range seq.Offset(1000) {
				if now, _ := p.StateOf(o); now == channel.Finished {
					if then, _ := q.StateOf(o); then != channel.Finished {
						return fmt.Sprintf("%s: %d", x.Name, o)
					}
				}
			}
		}
	}
	return ""
}

// TestPositionsRoundTrip runs random histories whose checkpoints are updates and, occasionally,
// snapshots that replace them. Power is cut after each checkpoint: the positions found are those of
// the channels at that time.
func TestPositionsRoundTrip(t *testing.T) {
	rng := testrand.New(t)
	updates := 0
	for range 25 {
		disk := vfs.NewCrashable()
		if err := errors.Join(disk.MkdirAll("p"), disk.SyncDir(".")); err != nil {
			t.Fatal(err)
		}
		h := newHistory(t, rng, disk)
		for range 60 {
			for range 1 + rng.IntN(15) {
				h.step()
			}
			number := h.p.positions.Number()
			h.p.dirty.mark()
			if err := h.p.Checkpoint(); err != nil {
				t.Fatal(err)
			}
			if h.p.positions.Number() == number {
				updates++
			}
			if rng.IntN(10) == 0 {
				if _, err := h.p.positions.Fold(); err != nil {
					t.Fatal(err)
				}
			}
			p, got := mustOpenAt(t, disk.CrashClone(vfs.Crash{Rand: rng, KeepPercent: rng.IntN(101), TornPercent: 30}), "p")
			if want := h.live(); !got.equal(&want) || p.Damage() != nil || p.corrupt {
				t.Fatalf("found (damage %v)\n%s", p.Damage(), cmp.Diff(want, got))
			}
		}
		if err := h.log.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if updates < 300 {
		t.Errorf("only %d checkpoints were updates", updates)
	}
}

func mustOpenAt(t *testing.T, disk vfs.FS, dir string) (*Positions, Snapshot) {
	t.Helper()
	p, s, err := OpenPositions(disk, dir)
	if err != nil {
		t.Fatal(err)
	}
	return p, s
}

// TestPowerCutsAndFailuresSkipNothing cuts the power after every operation on the
// disk, and fails some: the positions found never show an unfinished message as
// finished, and are the last that were stored, or newer.
func TestPowerCutsAndFailuresSkipNothing(t *testing.T) {
	rng := testrand.New(t)
	for range 12 {
		disk := vfs.NewCrashable()
		if err := errors.Join(disk.MkdirAll("p"), disk.SyncDir(".")); err != nil {
			t.Fatal(err)
		}
		faulty := vfstest.NewFaulty(disk)
		h := newHistory(t, rng, faulty)
		stored := h.live()
		for range 40 {
			for range 1 + rng.IntN(15) {
				h.step()
			}
			if rng.IntN(4) == 0 {
				left := rng.IntN(6)
				faulty.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
					if left--; left >= 0 || op.Len == 0 && op.Kind == vfs.OpWrite {
						return vfstest.Fault{}
					}
					return vfstest.Fault{Err: syscall.ENOSPC, Short: rng.IntN(int(op.Len) + 1)}
				})
			}
			now := h.live()
			disk.Observe(func(vfs.Op) {
				clone := disk.CrashClone(vfs.Crash{Rand: rng, KeepPercent: rng.IntN(101), TornPercent: 30})
				p, got, err := OpenPositions(clone, "p")
				if err != nil {
					t.Fatal(err)
				}
				if p.corrupt {
					t.Fatalf("a torn write is taken for damage: %v", p.Damage())
				}
				if !got.equal(&stored) && !got.equal(&now) {
					if o := finishedBeyond(&got, &now); o != "" {
						t.Fatalf("finished, and was not: %s", o)
					}
					if o := finishedBeyond(&stored, &got); o != "" {
						t.Fatalf("stored as finished, and is not: %s", o)
					}
				}
			})
			h.p.dirty.mark()
			err := h.p.Checkpoint()
			disk.Observe(nil)
			faulty.Decide(nil)
			if err == nil {
				stored = now
			}
		}
		if err := h.log.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCorruptChangeIsDistinguishedFromTornTail damages each record of a journal.
func TestCorruptChangeIsDistinguishedFromTornTail(t *testing.T) {
	m := positionsFS(t)
	p, _ := mustOpenPositions(t, m)
	if err := errors.Join(p.Begin(), p.Save(orderedAt(0))); err != nil {
		t.Fatal(err)
	}
	var ends []int64
	for n := seq.Offset(1); n <= 5; n++ {
		u := update{changed: []channelChange{{name: "c", version: 1, change: channel.Change{Position: channel.Position{Floor: 10 * n}}}}}
		data, err := u.encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Update(data); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, p.journal.size())
	}
	for i, end := range ends {
		clone := m.CrashClone(vfs.Crash{})
		name := filepath.Join(positionsDir, journalName(1))
		f, err := clone.OpenReadWrite(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte{0xff}, end-2); err != nil {
			t.Fatal(err)
		}
		p, got := mustOpenPositions(t, clone)
		last := i == len(ends)-1
		wantFloor := seq.Offset(50)
		if last {
			wantFloor = 40
		}
		if p.corrupt == last || (p.Damage() == nil) != last {
			t.Errorf("record %d: rotten %v, damage %v", i, p.corrupt, p.Damage())
		}
		if floor := got.Channels[0].Position.Floor; floor != wantFloor {
			t.Errorf("record %d: floor %d, want %d", i, floor, wantFloor)
		}
		if p.takesUpdates() != last {
			t.Errorf("record %d: takes updates %v", i, p.takesUpdates())
		}
	}
}

// TestLostSnapshotBelowUpdatesIsDetected: updates follow a snapshot only once it is
// stored. Earlier positions must not undo an operator's move that was in it.
func TestLostSnapshotBelowUpdatesIsDetected(t *testing.T) {
	m := positionsFS(t)
	p, _ := mustOpenPositions(t, m)
	at := func(floor seq.Offset, moves uint64) Snapshot {
		s := orderedAt(floor)
		s.Channels[0].Moves = moves
		return s
	}
	u := update{changed: []channelChange{{name: "c", version: 1, moves: 1, change: channel.Change{Position: channel.Position{Floor: 12}}}}}
	data, err := u.encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Begin(), p.Save(at(100, 0)), p.Begin(), p.Save(at(10, 1)), p.Update(data)); err != nil {
		t.Fatal(err)
	}
	damage(t, m, positionsSlot0, func(b []byte) []byte { b[len(b)-1] ^= 1; return b })
	p, got := mustOpenPositions(t, m)
	if floor := got.Channels[0].Position.Floor; !p.corrupt || floor != 12 {
		t.Errorf("rotten %v, floor %d: 12 is what the update says, 100 skips messages", p.corrupt, floor)
	}
	if _, err := Open(Options{FS: m, Dir: positionsDir, Log: emptyLog(t), PositionsDamaged: func(error, bool) {}}); fate.Of(err) != fate.Corrupt {
		t.Errorf("a leader opens them without a word: %v", err)
	}
}

func emptyLog(t *testing.T) *commitlog.Log {
	t.Helper()
	m := vfs.NewMem()
	l, _, err := commitlog.Open(m, "log", commitlog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func deferredAt(n uint32, at int64) []byte {
	u := update{stamp: stampOf(1, n), changed: []channelChange{{name: "c", version: 1, change: channel.Change{
		Position: channel.Position{Deferred: channel.DeferralsOf(channel.Deferral{Offset: 5, At: at, Attempts: 1})},
	}}}}
	data, err := u.encode()
	if err != nil {
		panic(err)
	}
	return data
}

// TestRepeatedUpdateUndoesNothing: a new session may repeat everything
// since the newest snapshot, also to a process that was killed meanwhile.
func TestRepeatedUpdateUndoesNothing(t *testing.T) {
	m := positionsFS(t)
	s := mustOpenStandby(t, m)
	if err := errors.Join(s.Replace(told(t, uint64(stampOf(1, 1)), orderedAt(0))), s.Update(deferredAt(2, 20)), s.Update(deferredAt(3, 30))); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Update(deferredAt(2, 20)); err != nil {
			t.Fatal(err)
		}
		if got := s.known.snapshot().Channels[0].Position.Deferred; !got.Equal(channel.DeferralsOf(channel.Deferral{Offset: 5, At: 30, Attempts: 1})) {
			t.Errorf("deferred %+v, want until 30", got)
		}
		m = m.CrashClone(vfs.Crash{})
		s = mustOpenStandby(t, m)
	}
}

// TestSnapshotFollowsAFailedUpdate: it is unknown what a failed sync has
// stored, and the sync is not repeated.
func TestSnapshotFollowsAFailedUpdate(t *testing.T) {
	m := positionsFS(t)
	faulty := vfstest.NewFaulty(m)
	s := mustOpenStandby(t, faulty)
	if err := errors.Join(s.Replace(told(t, uint64(stampOf(1, 1)), orderedAt(0))), s.Update(deferredAt(2, 20))); err != nil {
		t.Fatal(err)
	}
	number := s.files.Number()
	faulty.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Kind == vfs.OpSyncData {
			return vfstest.Fault{Err: syscall.EIO}
		}
		return vfstest.Fault{}
	})
	if err := s.Update(deferredAt(3, 30)); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	faulty.Decide(nil)
	if err := s.Update(deferredAt(3, 30)); err != nil || s.files.Number() != number+1 {
		t.Errorf("%v, snapshot %d: want %d", err, s.files.Number(), number+1)
	}
	_, got := mustOpenPositions(t, m.CrashClone(vfs.Crash{}))
	if d := got.Channels[0].Position.Deferred; !d.Equal(channel.DeferralsOf(channel.Deferral{Offset: 5, At: 30, Attempts: 1})) {
		t.Errorf("stored %+v", d)
	}
}

// TestUpdateAfterAFailedCheckpointIsNoDamage: a follower's disk is full for a moment, so that a
// checkpoint fails. The leader's next update must not follow the snapshot that was not stored: a start
// would take that snapshot for lost.
func TestUpdateAfterAFailedCheckpointIsNoDamage(t *testing.T) {
	m := positionsFS(t)
	faulty := vfstest.NewFaulty(m)
	s := mustOpenStandby(t, faulty)
	fin := advance.Change{Channel: "c", Version: 1, Offset: 9}.Append(nil)
	if err := errors.Join(s.Replace(told(t, uint64(stampOf(1, 1)), orderedAt(0))), s.Update(deferredAt(2, 20)), s.Advance(fin)); err != nil {
		t.Fatal(err)
	}
	faulty.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Kind == vfs.OpWrite && !strings.Contains(op.Name, journalName(0)) {
			return vfstest.Fault{Err: syscall.ENOSPC}
		}
		return vfstest.Fault{}
	})
	if err := s.Checkpoint(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := s.Update(deferredAt(3, 30)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("an update after a snapshot that was not stored: %v", err)
	}
	p, got := mustOpenPositions(t, m.CrashClone(vfs.Crash{KeepPercent: 100}))
	if p.corrupt || p.Damage() != nil || !slices.Equal(got.Channels[0].Position.Finished, []channel.Range{{From: 9, End: 10}}) {
		t.Errorf("rotten %v, damage %v: %+v", p.corrupt, p.Damage(), got)
	}
	faulty.Decide(nil)
	if err := s.Update(deferredAt(3, 30)); err != nil {
		t.Fatal(err)
	}
	if p, got = mustOpenPositions(t, m.CrashClone(vfs.Crash{})); p.corrupt || p.Damage() != nil || got.Channels[0].Position.Deferred.Len() != 1 {
		t.Errorf("with room: rotten %v, damage %v: %+v", p.corrupt, p.Damage(), got)
	}
}

// TestNewReplicasGetASnapshotFirst: updates are useless to a follower without
// the state that they change.
func TestNewReplicasGetASnapshotFirst(t *testing.T) {
	s := newSetThatUpdates(t, 1)
	s.line.alone = true
	r := s.bench().join(s.channel("c", 1, false))
	s.publish("a", "b", "c")
	r.take(9, t0)
	for _, body := range []string{"a", "b"} {
		r.finish(body)
		if err := s.p.Checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
	s.line.alone = false
	before := len(s.line.parcels)
	r.finish("c")
	if err := s.p.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if got := s.line.parcels[before:]; len(got) != 1 || got[0].kind != aSnapshot {
		t.Errorf("shared %d parcels, want a snapshot", len(got))
	}
}
