package topic

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/advance"
	"github.com/brokerd/brokerd/pkg/changes"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// killed is a disk after its process was killed: it has everything that was
// written.
func killed(m *vfs.Mem) *vfs.Mem { return m.CrashClone(vfs.Crash{KeepPercent: 100}) }

func noteUpTo(t *testing.T, p *Positions, from, to seq.Offset) {
	t.Helper()
	for o := from; o < to; o++ {
		if err := p.Append(changeOf("c", 1, o, o, 0, 0).Append(nil)); err != nil {
			t.Fatal(err)
		}
	}
}

func orderedAt(floor seq.Offset) Snapshot {
	c := ChannelPosition{Name: "c", Version: 1}
	c.Position.Floor = floor
	return Snapshot{Channels: []ChannelPosition{c}}
}

func wantFloor(t *testing.T, m *vfs.Mem, want seq.Offset) *Positions {
	t.Helper()
	p, got := mustOpenPositions(t, m)
	if len(got.Channels) != 1 || got.Channels[0].Position.Floor != want {
		t.Fatalf("found %+v, want a floor of %d", got.Channels, want)
	}
	return p
}

func TestKilledProcessLosesNoChange(t *testing.T) {
	m := positionsFS(t)
	p, _ := mustOpenPositions(t, m)
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
	m := positionsFS(t)
	p, _ := mustOpenPositions(t, m)
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
	m := positionsFS(t)
	p, _ := mustOpenPositions(t, m)
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
		m := positionsFS(t)
		p, _ := mustOpenPositions(t, m)
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
		_, got := mustOpenPositions(t, cut)
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
	m := positionsFS(t)
	faulty := vfstest.NewFaulty(m)
	p, _, err := OpenPositions(faulty, positionsDir)
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

func TestNothingIsWrittenInForeignDirectory(t *testing.T) {
	p, _ := mustOpenPositions(t, positionsFS(t))
	noteUpTo(t, p, 0, 2)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Append(changeOf("c", 1, 2, 2, 0, 0).Append(nil)); fate.Of(err) != fate.Refused {
		t.Fatal(err)
	}
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
	_, snap, err := OpenPositions(fsys, dir)
	if err != nil || len(snap.Channels) != 1 || snap.Channels[0].Position.Floor != want {
		t.Errorf("%+v, %v: want a floor of %d", snap, err, want)
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
		m := positionsFS(t)
		if err := vfs.WriteFileSynced(m, filepath.Join(positionsDir, journalName(number)), data); err != nil {
			t.Fatal(err)
		}
		j := journal{fs: m, dir: positionsDir}
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
		if _, err := (&journal{fs: m, dir: positionsDir}).replay(number, &again); err != nil {
			t.Fatal(err)
		}
		s.advance(a)
		if !again.snapshot().equal(s.snapshot()) {
			t.Fatalf("%+v, want %+v", again, s)
		}
	})
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
