package positions

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/advance"
	"github.com/brokerd/brokerd/pkg/changes"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// killed is a disk after its process was killed: it has everything that was
// written.
func killed(m *vfs.Mem) *vfs.Mem { return m.CrashClone(vfs.Crash{KeepPercent: 100}) }

func noteUpTo(t *testing.T, p *files, from, to seq.Offset) {
	t.Helper()
	for o := from; o < to; o++ {
		if err := p.Append(changeOf("c", 1, o, o, 0, 0).Append(nil)); err != nil {
			t.Fatal(err)
		}
	}
}

func orderedAt(floor seq.Offset) Snapshot {
	c := Channel{Name: "c", Version: 1}
	c.Position.Floor = floor
	return Snapshot{Channels: []Channel{c}}
}

func wantFloor(t *testing.T, m *vfs.Mem, want seq.Offset) *files {
	t.Helper()
	p, got := mustOpen(t, m)
	if len(got.Channels) != 1 || got.Channels[0].Position.Floor != want {
		t.Fatalf("found %+v, want a floor of %d", got.Channels, want)
	}
	return p
}

func TestKilledProcessLosesNoChange(t *testing.T) {
	m := testFS(t)
	p, _ := mustOpen(t, m)
	noteUpTo(t, p, 0, 3) // before the first snapshot, too
	m = killed(m)
	p = wantFloor(t, m, 3)
	noteUpTo(t, p, 3, 5) // after the records of the killed one
	m = killed(m)
	p = wantFloor(t, m, 5)
	for round := range seq.Offset(5) {
		floor := 5 + 2*round
		if err := errors.Join(p.Begin(), p.Save(orderedAt(floor))); err != nil {
			t.Fatal(err)
		}
		noteUpTo(t, p, floor, floor+2)
		m = killed(m)
		p = wantFloor(t, m, floor+2)
	}
}

func TestChangeDuringSnapshotFollowsIt(t *testing.T) {
	m := testFS(t)
	p, _ := mustOpen(t, m)
	if err := errors.Join(p.Begin(), p.Save(orderedAt(4))); err != nil {
		t.Fatal(err)
	}
	noteUpTo(t, p, 4, 6)
	if err := p.Begin(); err != nil {
		t.Fatal(err)
	}
	noteUpTo(t, p, 6, 8)
	wantFloor(t, killed(m), 8) // the snapshot never came
	if err := p.Save(orderedAt(6)); err != nil {
		t.Fatal(err)
	}
	wantFloor(t, killed(m), 8)
}

func TestSnapshotContainsEarlierChanges(t *testing.T) {
	m := testFS(t)
	p, _ := mustOpen(t, m)
	noteUpTo(t, p, 0, 9)
	// An operator moved the channel back.
	if err := errors.Join(p.Begin(), p.Save(orderedAt(2))); err != nil {
		t.Fatal(err)
	}
	p = wantFloor(t, killed(m), 2)
	if err := errors.Join(p.Begin(), p.Save(orderedAt(2))); err != nil {
		t.Fatal(err)
	}
	wantFloor(t, killed(m), 2)
}

func TestPowerLossReturnsToSnapshotAtMost(t *testing.T) {
	rnd := testrand.New(t)
	for range 300 {
		m := testFS(t)
		p, _ := mustOpen(t, m)
		stored, noted := seq.Offset(0), seq.Offset(0)
		for range 1 + rnd.IntN(12) {
			if rnd.IntN(3) == 0 {
				if err := errors.Join(p.Begin(), p.Save(orderedAt(noted))); err != nil {
					t.Fatal(err)
				}
				stored = noted
				continue
			}
			more := seq.Offset(1 + rnd.IntN(30))
			noteUpTo(t, p, noted, noted+more)
			noted += more
		}
		cut := m.CrashClone(vfs.Crash{Rand: rnd, KeepPercent: rnd.IntN(100), TornPercent: 50})
		_, got := mustOpen(t, cut)
		floor := seq.Offset(0)
		if len(got.Channels) > 0 {
			floor = got.Channels[0].Position.Floor
		}
		if floor < stored || floor > noted {
			t.Fatalf("floor %d, stored %d, noted %d", floor, stored, noted)
		}
	}
}

func TestFailedJournalWriteAffectsNoOther(t *testing.T) {
	m := testFS(t)
	faulty := vfstest.NewFaulty(m)
	p, _, err := openFiles(faulty, testDir)
	if err != nil {
		t.Fatal(err)
	}
	noteUpTo(t, p, 0, 4)
	faulty.Decide(func(int64, vfs.Op) vfstest.Fault { return vfstest.Fault{Err: syscall.ENOSPC, Short: 9} })
	if err := p.Append(changeOf("c", 1, 4, 4, 0, 0).Append(nil)); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	faulty.Decide(nil)
	wantFloor(t, killed(m), 4)
	noteUpTo(t, p, 5, 7)
	wantFloor(t, killed(m), 7)
}

func TestNothingIsWrittenInForeignDirectory(t *testing.T) {
	p, _ := mustOpen(t, testFS(t))
	noteUpTo(t, p, 0, 2)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Append(changeOf("c", 1, 2, 2, 0, 0).Append(nil)); fate.Of(err) != fate.Refused {
		t.Fatal(err)
	}
}

func TestJournalIsGolden(t *testing.T) {
	got := changes.Append(nil, 7, 9, changeOf("ch", 300, 5, 6, 0, 0).Append(nil))
	want := []byte("\x5c\x74\x71\x75\x0a\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x00\x00\x00\x00\x01\x02ch\xac\x02\x05\x06\x00\x00")
	if !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	r := changes.Next(got, 0, 7)
	if a, err := advance.Decode(r.Change); err != nil || r.Size != len(got) || r.Synced != 9 || len(a) != 1 || a[0] != changeOf("ch", 300, 5, 6, 0, 0) {
		t.Errorf("read %+v of %d bytes: %v", a, r.Size, err)
	}
}

func FuzzJournal(f *testing.F) {
	f.Add(changes.Append(nil, 1, 0, changeOf("c", 1, 2, 3, 0, 0).Append(nil)), uint64(1))
	f.Add(changes.Append(nil, 1, 0, []byte{stampVersion, 0x81, 0x80, 0x80, 0x80, 0x10}), uint64(1))
	f.Add([]byte("\x00\x00\x00\x00\xff\xff\xff\xff01234567"), uint64(9))
	f.Fuzz(func(t *testing.T, data []byte, number uint64) {
		m := testFS(t)
		if err := vfs.WriteFileSynced(m, filepath.Join(testDir, journalName(number)), data); err != nil {
			t.Fatal(err)
		}
		j := journal{fs: m, dir: testDir}
		var s mirror
		if _, err := j.replay(number, &s); err != nil {
			t.Fatal(err)
		}
		if j.end > int64(len(data)) {
			t.Fatalf("%d of %d bytes are good", j.end, len(data))
		}
		seed := rand.New(rand.NewPCG(number, 1))
		a := changeOf("other", seed.Uint64(), 1, 2, 0, 0)
		if err := errors.Join(j.append(a.Append(nil)), j.close()); err != nil {
			t.Fatal(err)
		}
		var again mirror
		if _, err := (&journal{fs: m, dir: testDir}).replay(number, &again); err != nil {
			t.Fatal(err)
		}
		s.advance(a)
		if !again.snapshot().equal(s.snapshot()) {
			t.Fatalf("%+v, want %+v", again, s)
		}
	})
}
