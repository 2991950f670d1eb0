package positions

import (
	"bytes"
	"encoding/hex"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/advance"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/position"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

func sampleUpdate() Update {
	at := seq.Offset(300)
	return Update{
		stamp: stampOf(3, 7), Removed: []string{"gone"},
		Header: Snapshot{BacklogFrom: 5, Addressed: 4, PausedAt: &at, Lost: true, Channels: []Channel{{Name: "w", Version: 2, Position: position.Position{Floor: 9}}}},
		Changed: []ChannelChange{{Name: "c", Version: 4, Moves: 6, Change: position.Change{
			Position: position.Position{Floor: 20, Attempted: []position.Attempt{{Offset: 21, Attempts: 2}}},
			Unmarked: []position.Range{{From: 22, End: 30}},
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
		image, err := appendSnapshot(nil, 1, *m.snapshot())
		if err != nil {
			return // a name that is too long was never written
		}
		if _, _, err := decodeSnapshot(image); err != nil {
			t.Errorf("after %x: %v", data, err)
		}
	})
}

// TestCorruptChangeIsDistinguishedFromTornTail damages each record of a journal.
func TestCorruptChangeIsDistinguishedFromTornTail(t *testing.T) {
	m := testFS(t)
	p, _ := mustOpen(t, m)
	if err := errors.Join(p.Begin(), p.Save(orderedAt(0))); err != nil {
		t.Fatal(err)
	}
	var ends []int64
	for n := seq.Offset(1); n <= 5; n++ {
		u := Update{Changed: []ChannelChange{{Name: "c", Version: 1, Change: position.Change{Position: position.Position{Floor: 10 * n}}}}}
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
		name := filepath.Join(testDir, journalName(1))
		f, err := clone.OpenReadWrite(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte{0xff}, end-2); err != nil {
			t.Fatal(err)
		}
		p, got := mustOpen(t, clone)
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
	m := testFS(t)
	p, _ := mustOpen(t, m)
	at := func(floor seq.Offset, moves uint64) Snapshot {
		s := orderedAt(floor)
		s.Channels[0].Moves = moves
		return s
	}
	u := Update{Changed: []ChannelChange{{Name: "c", Version: 1, Moves: 1, Change: position.Change{Position: position.Position{Floor: 12}}}}}
	data, err := u.encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Begin(), p.Save(at(100, 0)), p.Begin(), p.Save(at(10, 1)), p.Update(data)); err != nil {
		t.Fatal(err)
	}
	damage(t, m, slot0, func(b []byte) []byte { b[len(b)-1] ^= 1; return b })
	p, got := mustOpen(t, m)
	if floor := got.Channels[0].Position.Floor; !p.corrupt || floor != 12 {
		t.Errorf("rotten %v, floor %d: 12 is what the update says, 100 skips messages", p.corrupt, floor)
	}
	if _, _, err := OpenKeeper(KeeperOptions{FS: m, Dir: testDir, Damaged: func(error, bool) {}}); fate.Of(err) != fate.Corrupt {
		t.Errorf("a leader opens them without a word: %v", err)
	}
}

func deferredAt(n uint32, at int64) []byte {
	u := Update{stamp: stampOf(1, n), Changed: []ChannelChange{{Name: "c", Version: 1, Change: position.Change{
		Position: position.Position{Deferred: position.NewDeferralSet(position.Deferral{Offset: 5, At: at, Attempts: 1})},
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
	m := testFS(t)
	s := mustOpenStandby(t, m)
	if err := errors.Join(s.Replace(told(t, uint64(stampOf(1, 1)), orderedAt(0))), s.Update(deferredAt(2, 20)), s.Update(deferredAt(3, 30))); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Update(deferredAt(2, 20)); err != nil {
			t.Fatal(err)
		}
		if got := s.known.snapshot().Channels[0].Position.Deferred; !got.Equal(position.NewDeferralSet(position.Deferral{Offset: 5, At: 30, Attempts: 1})) {
			t.Errorf("deferred %+v, want until 30", got)
		}
		m = m.CrashClone(vfs.Crash{})
		s = mustOpenStandby(t, m)
	}
}

// TestSnapshotFollowsAFailedUpdate: it is unknown what a failed sync has
// stored, and the sync is not repeated.
func TestSnapshotFollowsAFailedUpdate(t *testing.T) {
	m := testFS(t)
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
	_, got := mustOpen(t, m.CrashClone(vfs.Crash{}))
	if d := got.Channels[0].Position.Deferred; !d.Equal(position.NewDeferralSet(position.Deferral{Offset: 5, At: 30, Attempts: 1})) {
		t.Errorf("stored %+v", d)
	}
}

// TestUpdateAfterAFailedCheckpointIsNoDamage: a follower's disk is full for a moment, so that a
// checkpoint fails. The leader's next update must not follow the snapshot that was not stored: a start
// would take that snapshot for lost.
func TestUpdateAfterAFailedCheckpointIsNoDamage(t *testing.T) {
	m := testFS(t)
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
	p, got := mustOpen(t, m.CrashClone(vfs.Crash{KeepPercent: 100}))
	if p.corrupt || p.Damage() != nil || !slices.Equal(got.Channels[0].Position.Finished, []position.Range{{From: 9, End: 10}}) {
		t.Errorf("rotten %v, damage %v: %+v", p.corrupt, p.Damage(), got)
	}
	faulty.Decide(nil)
	if err := s.Update(deferredAt(3, 30)); err != nil {
		t.Fatal(err)
	}
	if p, got = mustOpen(t, m.CrashClone(vfs.Crash{})); p.corrupt || p.Damage() != nil || got.Channels[0].Position.Deferred.Len() != 1 {
		t.Errorf("with room: rotten %v, damage %v: %+v", p.corrupt, p.Damage(), got)
	}
}

// TestUpdateNeverUndoesAKnownFinish: an update of the next leader may be older than a finish that the one before has
// shared.
func TestUpdateNeverUndoesAKnownFinish(t *testing.T) {
	const finished = seq.Offset(9)
	waits := position.Change{Unmarked: []position.Range{{From: finished, End: finished + 1}}}
	for name, u := range map[string]Update{
		"a whole position":           {Header: Snapshot{Channels: []Channel{{Name: "c", Version: 1}}}},
		"a change":                   {Changed: []ChannelChange{{Name: "c", Version: 1, Change: waits}}},
		"one after a whole position": {Header: Snapshot{Channels: []Channel{{Name: "c", Version: 1}}}, Changed: []ChannelChange{{Name: "c", Version: 1, Change: waits}}},
	} {
		var m mirror
		m.set(Snapshot{Channels: []Channel{{Name: "c", Version: 1}}})
		m.advance(changeOf("c", 1, 0, finished, 0, 0))
		m.update(u)
		if got := m.snapshot().Channels[0].Position.Finished; !slices.Equal(got, []position.Range{{From: finished, End: finished + 1}}) {
			t.Errorf("%s: finished are %+v", name, got)
		}
		u.Header.Channels = []Channel{{Name: "c", Version: 1, Moves: 1}} // an operator has moved it back
		u.Changed = nil
		m.update(u)
		if got := m.snapshot().Channels[0].Position.Finished; len(got) > 0 {
			t.Errorf("%s: after a move back, finished are %+v", name, got)
		}
	}
}

// TestUpdateThatIsNotStoredIsTakenAgain: the leader repeats it, as it has got no answer.
func TestUpdateThatIsNotStoredIsTakenAgain(t *testing.T) {
	m := testFS(t)
	faulty := vfstest.NewFaulty(m)
	s := mustOpenStandby(t, faulty)
	if err := errors.Join(s.Replace(told(t, uint64(stampOf(1, 1)), orderedAt(0))), s.Update(deferredAt(2, 20))); err != nil {
		t.Fatal(err)
	}
	faulty.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Kind == vfs.OpSyncData || op.Kind == vfs.OpWrite {
			return vfstest.Fault{Err: syscall.EIO}
		}
		return vfstest.Fault{}
	})
	for range 3 { // the first tries to add it, the others to store a snapshot with it
		if err := s.Update(deferredAt(3, 30)); !errors.Is(err, syscall.EIO) {
			t.Fatalf("a disk that fails: %v", err)
		}
	}
	faulty.Decide(nil)
	if err := s.Update(deferredAt(3, 30)); err != nil {
		t.Fatal(err)
	}
	_, got := mustOpen(t, m.CrashClone(vfs.Crash{}))
	if d := got.Channels[0].Position.Deferred; !d.Equal(position.NewDeferralSet(position.Deferral{Offset: 5, At: 30, Attempts: 1})) {
		t.Errorf("stored %+v", d)
	}
}
