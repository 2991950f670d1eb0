package positions

import (
	"bytes"
	"errors"
	"slices"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/advance"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/position"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

func mustOpenStandby(t testing.TB, fsys vfs.FS) *Standby {
	t.Helper()
	s, err := openStandby(fsys, testDir, func(err error) { t.Errorf("damaged: %v", err) })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// openStandby opens a Standby whose log has every message.
func openStandby(fsys vfs.FS, dir string, damaged func(error)) (*Standby, error) {
	return OpenStandby(StandbyOptions{FS: fsys, Dir: dir, End: seq.MaxOffset, Damaged: damaged})
}

// told returns a snapshot as a leader shares it.
func told(t testing.TB, number uint64, s Snapshot) []byte {
	t.Helper()
	data, err := appendSnapshot(nil, number, s)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestStandbyStoresLeadersPositions(t *testing.T) {
	m := testFS(t)
	s := mustOpenStandby(t, m)
	if s.Floor() != 0 {
		t.Errorf("floor %d before anything was shared", s.Floor())
	}
	for n, leaders := range []stamp{stampOf(8, 900), stampOf(8, 901), stampOf(9, 3), stampOf(11, 3), stampOf(11, 4)} {
		data := told(t, uint64(leaders), sampleSnapshot(n+1))
		before := bytes.Clone(data)
		if err := s.Replace(data); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(before, data) {
			t.Fatal("the leader's bytes were changed")
		}
		p, got := mustOpen(t, m.CrashClone(vfs.Crash{}))
		if diff := cmp.Diff(sampleSnapshot(n+1), got); diff != "" || p.Damage() != nil {
			t.Fatalf("%v: %s", p.Damage(), diff)
		}
	}
	if want := sampleSnapshot(5).BacklogFrom; s.Floor() != want {
		t.Errorf("floor %d, want %d: there is no channel", s.Floor(), want)
	}
}

func TestStandbyAcceptsOnlyWholeSnapshots(t *testing.T) {
	m := testFS(t)
	s := mustOpenStandby(t, m)
	good := told(t, 1, sampleSnapshot(3))
	if err := s.Replace(good); err != nil {
		t.Fatal(err)
	}
	for n := range good {
		if err := s.Replace(good[:n]); fate.Of(err) != fate.Refused || err == nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	if err := s.Replace(append(bytes.Clone(good), 0)); fate.Of(err) != fate.Refused || err == nil {
		t.Errorf("a byte too many: %v", err)
	}
	if err := s.Advance([]byte{1, 1}); fate.Of(err) != fate.Refused || err == nil {
		t.Errorf("half a change: %v", err)
	}
	if diff := cmp.Diff(sampleSnapshot(3), *s.known.snapshot()); diff != "" {
		t.Errorf("what was refused changed it: %s", diff)
	}
}

func TestStandbyDoesNotRewriteWhatItHas(t *testing.T) {
	m := testFS(t)
	s := mustOpenStandby(t, m)
	if err := s.Replace(told(t, 1, sampleSnapshot(4))); err != nil {
		t.Fatal(err)
	}
	ops := len(m.Trace())
	if err := errors.Join(s.Replace(told(t, 2, sampleSnapshot(4))), s.Checkpoint()); err != nil {
		t.Fatal(err)
	}
	if n := len(m.Trace()); n != ops {
		t.Errorf("%d operations for what was stored already", n-ops)
	}
	if err := s.Advance(changeOf("channel0", 4, 5000, 5000, 0, 0).Append(nil)); err != nil {
		t.Fatal(err)
	}
	moved := sampleSnapshot(4)
	moved.Channels[0].Moves = 1
	if err := s.Replace(told(t, 3, moved)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(moved, *s.known.snapshot()); diff != "" {
		t.Errorf("a snapshot after a change is the newer word: %s", diff)
	}
}

// TestRepeatedSnapshotUndoesNothing: a new session begins with the
// newest snapshot, and may end before it repeats the later shares.
func TestRepeatedSnapshotUndoesNothing(t *testing.T) {
	s := mustOpenStandby(t, testFS(t))
	at := func(floor seq.Offset, moves uint64) Snapshot {
		return Snapshot{Channels: []Channel{{Name: "c", Version: 1, Moves: moves, Position: position.Position{Floor: floor}}}}
	}
	steps := []struct {
		name  string
		told  stamp
		floor seq.Offset
		moves uint64
		want  seq.Offset
	}{
		{"the first", stampOf(5, 2), 10, 0, 11},
		{"again", stampOf(5, 2), 10, 0, 11},
		{"an older one", stampOf(5, 1), 9, 0, 11},
		{"a newer one, by an operator", stampOf(5, 3), 4, 1, 4},
		{"another leader's", stampOf(6, 1), 10, 1, 10},
		{"another leader's, who has not heard of that", stampOf(7, 1), 9, 1, 10},
		{"another leader's, who has not heard of the operator", stampOf(8, 1), 3, 0, 3},
		{"one of an epoch that a stamp does not hold whole", stampOf(1<<32+1, 1), 12, 0, 12},
	}
	for i, step := range steps {
		if err := s.Replace(told(t, uint64(step.told), at(step.floor, step.moves))); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if err := s.Advance(changeOf("c", 1, 10, 10, 0, 0).Append(nil)); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.Floor(); got != step.want {
			t.Errorf("%s: floor %d, want %d", step.name, got, step.want)
		}
	}
}

func TestAdvancesMoveOnlyForward(t *testing.T) {
	start := Snapshot{Channels: []Channel{{Name: "c", Version: 5, Position: position.Position{
		Floor:     10,
		Finished:  []position.Range{{From: 12, End: 14}},
		Deferred:  position.NewDeferralSet(position.Deferral{Offset: 15, At: 1, Delay: 1, Attempts: 1}),
		Attempted: []position.Attempt{{Offset: 10, Attempts: 2}, {Offset: 11, Attempts: 1}},
	}}}}
	tests := []struct {
		name    string
		changes []advance.Change
		want    []seq.Offset // the channels' floors
	}{
		{"the next", []advance.Change{changeOf("c", 5, 10, 10, 0, 0)}, []seq.Offset{11}},
		{"twice", []advance.Change{changeOf("c", 5, 10, 10, 0, 0), changeOf("c", 5, 10, 10, 0, 0)}, []seq.Offset{11}},
		{"over what is finished", []advance.Change{changeOf("c", 5, 10, 10, 0, 0), changeOf("c", 5, 11, 11, 0, 0)}, []seq.Offset{14}},
		{"late", []advance.Change{changeOf("c", 5, 10, 11, 0, 0), changeOf("c", 5, 10, 10, 0, 0), changeOf("c", 5, 9, 9, 0, 0)}, []seq.Offset{14}},
		{"behind a gap", []advance.Change{changeOf("c", 5, 10, 20, 0, 0)}, []seq.Offset{10}},
		{"the leader is ahead", []advance.Change{changeOf("c", 5, 500, 500, 0, 0)}, []seq.Offset{501}},
		{"an earlier channel of the name", []advance.Change{changeOf("c", 4, 500, 500, 0, 0)}, []seq.Offset{10}},
		{"a later channel of the name", []advance.Change{changeOf("c", 6, 3, 3, 0, 0)}, []seq.Offset{4}},
		{"another channel", []advance.Change{changeOf("d", 6, 3, 4, 0, 0)}, []seq.Offset{10, 3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := testFS(t)
			s := mustOpenStandby(t, m)
			if err := s.Replace(told(t, 1, start)); err != nil {
				t.Fatal(err)
			}
			for _, a := range tt.changes {
				if err := s.Advance(a.Append(nil)); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			_, got := mustOpen(t, m.CrashClone(vfs.Crash{}))
			var floors []seq.Offset
			for _, c := range got.Channels {
				floors = append(floors, c.Position.Floor)
			}
			if diff := cmp.Diff(tt.want, floors); diff != "" {
				t.Errorf("%s in %+v", diff, got)
			}
		})
	}
}

func TestStandbyWithoutIntactPositionsWaitsForTheLeader(t *testing.T) {
	m := testFS(t)
	s := mustOpenStandby(t, m)
	for n := 1; n <= 2; n++ {
		if err := s.Replace(told(t, uint64(n), sampleSnapshot(n))); err != nil {
			t.Fatal(err)
		}
	}
	for _, slot := range []string{slot0, slot1} {
		damage(t, m, slot, func(b []byte) []byte { return b[:len(b)-1] })
	}
	said := 0
	s, err := openStandby(m, testDir, func(error) { said++ })
	if err != nil || said != 1 {
		t.Fatalf("%v, said %d times", err, said)
	}
	if err := s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := openFiles(m, testDir); fate.Of(err) != fate.Corrupt {
		t.Errorf("before the leader told anything: %v", err)
	}
	if err := s.Replace(told(t, 1, sampleSnapshot(3))); err != nil {
		t.Fatal(err)
	}
	if _, got, err := openFiles(m, testDir); err != nil || !cmp.Equal(sampleSnapshot(3), got) {
		t.Errorf("after the leader told: %v, %+v", err, got)
	}
}

func TestClosedStandbyWritesNothing(t *testing.T) {
	m := testFS(t)
	s := mustOpenStandby(t, m)
	if err := errors.Join(s.Replace(told(t, 1, sampleSnapshot(1))), s.Close()); err != nil {
		t.Fatal(err)
	}
	ops := len(m.Trace())
	if err := s.Replace(told(t, 2, sampleSnapshot(2))); fate.Of(err) != fate.Refused || err == nil {
		t.Errorf("replace: %v", err)
	}
	if err := s.Advance(changeOf("channel0", 1, 1, 1, 0, 0).Append(nil)); fate.Of(err) != fate.Refused || err == nil {
		t.Errorf("advance: %v: the leader would count on it", err)
	}
	if err := errors.Join(s.Checkpoint(), s.Close()); err != nil {
		t.Error(err)
	}
	if n := len(m.Trace()); n != ops {
		t.Errorf("%d operations after it was closed", n-ops)
	}
}

// standbyScript passes snapshots and changes to a standby; step n leaves the
// floor of its one channel at n. It calls stored after each step that stores.
func standbyScript(s *Standby, epoch seq.Epoch, stored func(floor int)) error {
	for n := 1; n <= 16; n++ {
		floor := seq.Offset(n)
		var err error
		if n%3 == 1 {
			data, _ := appendSnapshot(nil, uint64(stampOf(epoch, uint32(n))), Snapshot{Channels: []Channel{
				{Name: "c", Version: 1, Position: position.Position{Floor: floor, Finished: []position.Range{{From: 1 << 20, End: 1<<20 + 5}}}},
			}})
			err = s.Replace(data)
		} else {
			err = s.Advance(changeOf("c", 1, floor-1, floor-1, 0, 0).Append(nil))
			if err == nil && n%3 == 0 {
				err = s.Checkpoint()
			}
		}
		if err != nil {
			return err
		}
		if n%3 != 2 {
			stored(n)
		}
	}
	return nil
}

func floorOf(s Snapshot) int {
	if len(s.Channels) == 0 {
		return 0
	}
	return int(s.Channels[0].Position.Floor)
}

// TestPowerCutKeepsWhatAStandbyStored cuts the power after every operation of a
// history: the standby finds the state that was stored, or the one that was
// being stored.
func TestPowerCutKeepsWhatAStandbyStored(t *testing.T) {
	rng := testrand.New(t)
	m := vfs.NewCrashable()
	stored := 0
	m.Observe(func(op vfs.Op) {
		if op.Kind == vfs.OpMkdir {
			return
		}
		for i := range 12 {
			clone := m.CrashClone(vfs.Crash{Rand: rng, KeepPercent: 10 * i, TornPercent: 50})
			s, err := openStandby(clone, testDir, func(error) {})
			if err != nil {
				t.Fatalf("after %v: %v", op, err)
			}
			if got := floorOf(*s.known.snapshot()); got != stored && (got < stored || got > stored+2) {
				t.Fatalf("after %v: floor %d, stored %d", op, got, stored)
			}
			if err := standbyScript(s, 2, func(int) {}); err != nil || floorOf(*s.known.snapshot()) != 16 {
				t.Fatalf("after %v it does not go on: %v", op, err)
			}
		}
	})
	if err := errors.Join(m.MkdirAll(testDir), m.SyncDir(".")); err != nil {
		t.Fatal(err)
	}
	if err := standbyScript(mustOpenStandby(t, m), 1, func(floor int) { stored = floor }); err != nil {
		t.Fatal(err)
	}
	if stored != 16 {
		t.Fatalf("the script stored %d", stored)
	}
}

// TestStandbyContinuesAfterEveryFailure fails each operation of a history in turn:
// the state stored before is still there, and the leader's next share repairs
// the standby.
func TestStandbyContinuesAfterEveryFailure(t *testing.T) {
	for index := int64(0); ; index++ {
		m := testFS(t)
		faulty := vfstest.NewFaulty(m)
		s := mustOpenStandby(t, faulty)
		hit := false
		opened := faulty.Count()
		faulty.Decide(func(i int64, op vfs.Op) vfstest.Fault {
			if i != opened+index {
				return vfstest.Fault{}
			}
			hit = true
			return vfstest.Fault{Err: syscall.EIO, Short: int(op.Len) / 2}
		})
		stored := 0
		err := standbyScript(s, 1, func(floor int) { stored = floor })
		if !hit {
			if err != nil || index == 0 {
				t.Fatalf("without a failure, after %d operations: %v", index, err)
			}
			return
		}
		if !errors.Is(err, syscall.EIO) {
			t.Fatalf("operation %d failed: %v", index, err)
		}
		_, got, err := openFiles(m.CrashClone(vfs.Crash{}), testDir)
		if err != nil || floorOf(got) < stored || floorOf(got) > stored+2 {
			t.Fatalf("operation %d failed: floor %d, stored %d (%v)", index, floorOf(got), stored, err)
		}
		if err := standbyScript(s, 2, func(int) {}); err != nil {
			t.Fatalf("operation %d failed: it does not go on: %v", index, err)
		}
		if _, got := mustOpen(t, m.CrashClone(vfs.Crash{})); floorOf(got) != 16 {
			t.Fatalf("operation %d failed: floor %d after all", index, floorOf(got))
		}
	}
}

func FuzzAdvance(f *testing.F) {
	f.Add(changeOf("c", 1, 2, 3, 0, 0).Append(nil))
	f.Add(changeOf("", 1<<60, 0, seq.MaxOffset, 0, 0).Append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := advance.Decode(data)
		if err != nil {
			return
		}
		s := sampleSnapshot(4)
		for _, a := range all {
			s.apply(a)
		}
		once := s.below(1 << 62) // a copy
		s.apply(all[len(all)-1])
		if !s.equal(&once) {
			t.Fatalf("%+v made twice is another", all[len(all)-1])
		}
		if image, err := appendSnapshot(nil, 1, s); err != nil {
			t.Fatal(err)
		} else if _, back, err := decodeSnapshot(image); err != nil || !back.equal(&s) {
			t.Fatalf("%+v leads to what cannot be stored: %v", all, err)
		}
	})
}

func changeOf(name string, version uint64, floor, offset seq.Offset, moves uint64, attempts seq.Attempts) advance.Change {
	return advance.Change{Channel: name, Version: version, Floor: floor, Offset: offset, Moves: moves, Attempts: attempts}
}

// A killed follower is still in sync, and its leader begins the next session with
// the same snapshot. If the leader dies before it repeats the changes, this
// replica may lead next.
func TestRepeatedSnapshotAfterKillUndoesNothing(t *testing.T) {
	snapshot := told(t, uint64(stampOf(3, 7)), orderedAt(0))
	for name, then := range map[string]func(*Standby) error{
		"at once":            func(*Standby) error { return nil },
		"after a checkpoint": (*Standby).Checkpoint,
		"after a stop":       (*Standby).Close,
		"after a checkpoint and changes": func(s *Standby) error {
			return errors.Join(s.Checkpoint(), s.Advance(changeOf("c", 1, 2, 2, 0, 0).Append(nil)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := testFS(t)
			s := mustOpenStandby(t, m)
			err := errors.Join(s.Replace(snapshot), s.Advance(changeOf("c", 1, 0, 0, 0, 0).Append(nil)), s.Advance(changeOf("c", 1, 1, 1, 0, 0).Append(nil)), then(s))
			if err != nil {
				t.Fatal(err)
			}
			floor := s.Floor()
			for range 2 {
				m = killed(m)
				s = mustOpenStandby(t, m)
				if err := s.Replace(snapshot); err != nil {
					t.Fatal(err)
				}
				wantFloor(t, killed(m), floor)
			}
			moved := orderedAt(1)
			moved.Channels[0].Moves = 1
			if err := s.Replace(told(t, uint64(stampOf(3, 8)), moved)); err != nil {
				t.Fatal(err)
			}
			wantFloor(t, killed(m), 1) // an operator moved the channel back
			if err := s.Replace(told(t, uint64(stampOf(4, 1)), orderedAt(0))); err != nil {
				t.Fatal(err)
			}
			wantFloor(t, killed(m), 0) // another leader does not know of it
		})
	}
}

// FuzzStandbyReplace gives a standby arbitrary bytes as a snapshot: it applies all of them, in
// addition to what it knows as finished, or keeps its state.
func FuzzStandbyReplace(f *testing.F) {
	for n := range 4 {
		f.Add(told(f, uint64(n+1), sampleSnapshot(n)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) >= imageHeader { // it would never get beyond the checksum
			data = bytes.Clone(data)
			sum := imageSum(data)
			copy(data[4:], []byte{byte(sum), byte(sum >> 8), byte(sum >> 16), byte(sum >> 24)})
		}
		s := mustOpenStandby(t, testFS(t))
		before := told(t, 1, sampleSnapshot(2))
		if err := s.Replace(before); err != nil {
			t.Fatal(err)
		}
		if err := s.Replace(data); err != nil {
			if want := sampleSnapshot(2); !s.known.snapshot().equal(&want) {
				t.Fatalf("what was refused (%v) changed it", err)
			}
			return
		}
		number, told, err := decodeSnapshot(data)
		if stamp(number).repeats(stampOf(0, 1)) {
			told = sampleSnapshot(2)
		}
		known := s.known.snapshot() // with what was known to be finished before
		if _, got := mustOpen(t, s.files.fs); err != nil || !got.equal(known) {
			t.Fatalf("stored %+v, known %+v (%v)", got, known, err)
		}
		for _, c := range told.Channels {
			if !slices.ContainsFunc(known.Channels, func(k Channel) bool { return k.Name == c.Name }) {
				t.Fatalf("channel %q was shared and is not known", c.Name)
			}
		}
	})
}

// TestRepeatedSnapshotAfterKillUndoesNoAttempts: which snapshot was applied is known after a checkpoint,
// although no change of the leader follows it.
func TestRepeatedSnapshotAfterKillUndoesNoAttempts(t *testing.T) {
	snapshot := told(t, uint64(stampOf(3, 7)), orderedAt(0))
	m := testFS(t)
	s := mustOpenStandby(t, m)
	if err := errors.Join(s.Replace(snapshot), s.Advance(changeOf("c", 1, 0, 3, 0, 2).Append(nil)), s.Checkpoint()); err != nil {
		t.Fatal(err)
	}
	s = mustOpenStandby(t, killed(m))
	if err := s.Replace(snapshot); err != nil {
		t.Fatal(err)
	}
	if got := s.known.snapshot().Channels[0].Position.Attempted; len(got) != 1 || got[0] != (position.Attempt{Offset: 3, Attempts: 2}) {
		t.Errorf("%v, want 2 attempts of message 3", got)
	}
}

// TestPositionsBeyondTruncationAreForgotten: a follower that knew messages as
// finished loses them to an operator's election. Other messages take their
// offsets.
func TestPositionsBeyondTruncationAreForgotten(t *testing.T) {
	m := testFS(t)
	s := mustOpenStandby(t, m)
	at := func(p position.Position) Snapshot {
		return Snapshot{Channels: []Channel{{Name: "c", Version: 1, Position: p}}}
	}
	known := position.Position{Floor: 40, Finished: []position.Range{{From: 45, End: 60}}}
	if err := s.Replace(told(t, uint64(stampOf(1, 1)), at(known))); err != nil {
		t.Fatal(err)
	}
	if err := s.Cut(50); err != nil {
		t.Fatal(err)
	}
	if err := s.Replace(told(t, uint64(stampOf(2, 1)), at(position.Position{Floor: 30}))); err != nil {
		t.Fatal(err)
	}
	_, got := mustOpen(t, m)
	wanted := position.Position{Floor: 40, Finished: []position.Range{{From: 45, End: 50}}}
	if diff := cmp.Diff(wanted, got.Channels[0].Position); diff != "" {
		t.Error(diff)
	}
	if err := s.Cut(20); err != nil {
		t.Fatal(err)
	}
	// The same leader sends it again, in its new session.
	if err := s.Replace(told(t, uint64(stampOf(2, 1)), at(position.Position{Floor: 25}))); err != nil {
		t.Fatal(err)
	}
	if got := s.Floor(); got != seq.Offset(25) {
		t.Errorf("floor %d, want 25", got)
	}
}
