package topic

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/advance"
	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/positions"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// killed is a disk after its process was killed: it has everything that was
// written.
func killed(m *vfs.Mem) *vfs.Mem { return m.CrashClone(vfs.Crash{KeepPercent: 100}) }

// stored returns the positions that a start of the node would find in a directory.
func stored(t testing.TB, fsys vfs.FS, dir string) positions.Report {
	t.Helper()
	r, err := positions.Inspect(fsys, dir)
	if r.Unreadable {
		err = r.Damage
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return r
}

// same reports whether two snapshots are equal.
func same(a, b *positions.Snapshot) bool { return cmp.Equal(*a, *b, cmpopts.EquateEmpty()) }

func TestChangesMissingFromSnapshotStayInJournal(t *testing.T) {
	b := newBench(t)
	b.lazy = true
	c, err := b.p.AddChannel("c", 1, ChannelOptions{Order: policy.Strict})
	if err != nil {
		t.Fatal(err)
	}
	r := b.join(c)
	b.publish("a", "b", "c", "d")
	for i, body := range []string{"a", "b", "c"} {
		want(t, "taken", r.take(1, t0), body)
		r.finish(body)
		if err := b.p.Checkpoint(); err != nil { // nothing of the log is durable
			t.Fatal(err)
		}
		wantStoredFloor(t, b.fs, "p", seq.Offset(i+1))
	}
	if err := c.Seek(1); err != nil {
		t.Fatal(err)
	}
	wantStoredFloor(t, b.fs, "p", 1)
}

func TestOrderedFinishesSurviveAKill(t *testing.T) {
	t.Run("alone", func(t *testing.T) {
		b := newBench(t)
		c, err := b.p.AddChannel("c", 1, ChannelOptions{Order: policy.Strict})
		if err != nil {
			t.Fatal(err)
		}
		r := b.join(c)
		b.publish("a", "b", "c")
		want(t, "first", r.take(9, t0), "a")
		r.finish("a")
		want(t, "second", r.take(9, t0), "b")
		r.finish("b")
		wantStoredFloor(t, b.fs, "p", 2)
	})
	t.Run("with others", func(t *testing.T) {
		s := newSet(t)
		r := s.bench().join(s.channel("c", 1, true))
		s.publish("a", "b", "c")
		s.line.deliverAll()
		for _, body := range []string{"a", "b"} {
			want(t, "taken", r.take(9, t0), body)
			r.finish(body)
			s.line.deliverAll()
		}
		for _, n := range s.nodes {
			wantStoredFloor(t, n.fs, "p", 2)
		}
	})
}

// wantStoredFloor opens the files that a process killed at this moment would
// leave.
func wantStoredFloor(t *testing.T, fsys vfs.FS, dir string, want seq.Offset) {
	t.Helper()
	snap := stored(t, fsys, dir).Snapshot
	if len(snap.Channels) != 1 || snap.Channels[0].Position.Floor != want {
		t.Errorf("%+v: want a floor of %d", snap, want)
	}
}

func TestUnrecordedFinishIsRedelivered(t *testing.T) {
	faulty := vfstest.NewFaulty(vfs.NewMem())
	b := &bench{t: t, fs: faulty}
	if err := b.fs.MkdirAll("p"); err != nil {
		t.Fatal(err)
	}
	b.open()
	t.Cleanup(func() { b.log.Close() })
	c, err := b.p.AddChannel("c", 1, ChannelOptions{Order: policy.Strict})
	if err != nil {
		t.Fatal(err)
	}
	r := b.join(c)
	b.publish("a", "b")
	want(t, "first", r.take(9, t0), "a")
	faulty.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if strings.Contains(op.Name, "journal") {
			return vfstest.Fault{Err: syscall.EIO}
		}
		return vfstest.Fault{}
	})
	r.finish("a")
	if c.Floor() != 0 {
		t.Fatalf("floor %d: a killed process would go back behind what was delivered next", c.Floor())
	}
	faulty.Decide(nil)
	c.Tick(t0.Add(time.Hour))
	want(t, "again", r.take(9, t0.Add(time.Hour)), "a")
	r.finish("a")
	want(t, "next", r.take(9, t0.Add(time.Hour)), "b")
}

// A leader may have reported finished messages that never arrived here, or that
// a power cut took. The next leader lacks them, gives their offsets to other
// messages, which are not finished, and may be killed before the next
// checkpoint.
func TestPositionsBeyondEndStayForgotten(t *testing.T) {
	change := advance.Change{Channel: "c", Version: 1, Floor: 1, Offset: 1}.Append(nil)
	for name, tell := range map[string]func(s *positions.Standby) error{
		"stored": func(s *positions.Standby) error { return errors.Join(s.Advance(change), s.Checkpoint()) },
		"noted":  func(s *positions.Standby) error { return s.Advance(change) },
	} {
		t.Run(name, func(t *testing.T) {
			b := &bench{t: t, fs: vfs.NewCrashable()}
			if err := b.fs.MkdirAll("p"); err != nil {
				t.Fatal(err)
			}
			s, err := positions.OpenStandby(positions.StandbyOptions{FS: b.fs, Dir: "p", End: seq.MaxOffset, Damaged: func(err error) { t.Error(err) }})
			if err != nil {
				t.Fatal(err)
			}
			if err := tell(s); err != nil {
				t.Fatal(err)
			}
			b.open()
			add := func() *Channel {
				c, err := b.p.AddChannel("c", 1, ChannelOptions{Order: policy.Strict})
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			add()
			b.publish("a", "b")
			b.log.Close()
			b.fs = killed(b.fs.(*vfs.Mem))
			b.open()
			t.Cleanup(func() { b.log.Close() })
			want(t, "after a kill", b.join(add()).take(9, t0), "a")
		})
	}
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
func (h *history) live() positions.Snapshot {
	s := positions.Snapshot{BacklogFrom: h.p.backlog}
	now := h.p.o.Now()
	for _, c := range h.p.Channels() {
		s.Channels = append(s.Channels, positions.Channel{Name: c.name, Version: c.version, Moves: c.moves, Position: c.state.View().Position(now, h.p.o.Ages.Wall(now))})
	}
	slices.SortFunc(s.Channels, func(a, b positions.Channel) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
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
func finishedBeyond(a, b *positions.Snapshot) string {
	for _, x := range a.Channels {
		for _, y := range b.Channels {
			if x.Name != y.Name || x.Version != y.Version || x.Moves != y.Moves {
				continue
			}
			p, q := channel.Restore(x.Position, false, t0, 0), channel.Restore(y.Position, false, t0, 0)
			for o := range seq.Offset(1000) {
				if now, _ := p.View().StateOf(o); now == channel.Finished {
					if then, _ := q.View().StateOf(o); then != channel.Finished {
						return fmt.Sprintf("%s: %d", x.Name, o)
					}
				}
			}
		}
	}
	return ""
}

// TestPositionsRoundTrip runs random histories whose checkpoints are updates and, occasionally,
// snapshots. Power is cut after each checkpoint: the positions found are those of
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
			number := stored(t, disk, "p").Number
			h.p.keeper.MarkDirty()
			if err := h.p.Checkpoint(); err != nil {
				t.Fatal(err)
			}
			if stored(t, disk, "p").Number == number {
				updates++
			}
			got := stored(t, disk.CrashClone(vfs.Crash{Rand: rng, KeepPercent: rng.IntN(101), TornPercent: 30}), "p")
			if want := h.live(); !same(&got.Snapshot, &want) || got.Damage != nil {
				t.Fatalf("found (damage %v)\n%s", got.Damage, cmp.Diff(want, got.Snapshot))
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
		before := h.live()
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
				got := stored(t, clone, "p")
				if got.Corrupt {
					t.Fatalf("a torn write is taken for damage: %v", got.Damage)
				}
				if !same(&got.Snapshot, &before) && !same(&got.Snapshot, &now) {
					if o := finishedBeyond(&got.Snapshot, &now); o != "" {
						t.Fatalf("finished, and was not: %s", o)
					}
					if o := finishedBeyond(&before, &got.Snapshot); o != "" {
						t.Fatalf("stored as finished, and is not: %s", o)
					}
				}
			})
			h.p.keeper.MarkDirty()
			err := h.p.Checkpoint()
			disk.Observe(nil)
			faulty.Decide(nil)
			if err == nil {
				before = now
			}
		}
		if err := h.log.Close(); err != nil {
			t.Fatal(err)
		}
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
