package positions

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/internal/golden"
	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/position"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

const testDir = "data"

func testFS(t testing.TB) *vfs.Mem {
	t.Helper()
	m := vfs.NewCrashable()
	if err := errors.Join(m.MkdirAll(testDir), m.SyncDir(".")); err != nil {
		t.Fatal(err)
	}
	return m
}

func mustOpen(t testing.TB, fsys vfs.FS) (*files, Snapshot) {
	t.Helper()
	p, s, err := openFiles(fsys, testDir)
	if err != nil {
		t.Fatal(err)
	}
	return p, s
}

func (p *files) Damage() error  { return p.damaged }
func (p *files) Number() uint64 { return p.number }

// sampleSnapshot is a snapshot that contains its number.
func sampleSnapshot(n int) Snapshot {
	at := seq.Offset(1000 * n)
	s := Snapshot{BacklogFrom: seq.Offset(n)}
	if n%2 == 1 {
		s.PausedAt = &at
	}
	for i := range n % 5 {
		s.Channels = append(s.Channels, Channel{
			Name: fmt.Sprintf("channel%d", i), Version: uint64(n + i),
			Position: position.Position{
				Floor:     at,
				Finished:  []position.Range{{From: at + 1, End: at + 5}, {From: at + 9, End: at + 900}},
				Deferred:  position.NewDeferralSet(position.Deferral{Offset: at + 6, At: time.Unix(1700000000, 5).UnixNano(), Delay: time.Second, Attempts: 3}),
				Attempted: []position.Attempt{{Offset: at, Attempts: 1}, {Offset: at + 7, Attempts: seq.MaxAttempts}},
			},
		})
	}
	return s
}

func TestPositionsAreFoundAgain(t *testing.T) {
	m := testFS(t)
	p, s := mustOpen(t, m)
	if diff := cmp.Diff(Snapshot{}, s); diff != "" || p.Number() != 0 || p.Damage() != nil {
		t.Fatalf("a new store is not empty: %s", diff)
	}
	for n := 1; n <= 9; n++ {
		if err := p.Save(sampleSnapshot(n)); err != nil {
			t.Fatal(err)
		}
		clone := m.CrashClone(vfs.Crash{})
		q, got := mustOpen(t, clone)
		if diff := cmp.Diff(sampleSnapshot(n), got); diff != "" || q.Number() != uint64(n) || q.Damage() != nil {
			t.Fatalf("snapshot %d as number %d, damage %v: %s", n, q.Number(), q.Damage(), diff)
		}
		if n%3 == 0 {
			p, _ = mustOpen(t, m)
		}
	}
}

func TestPositionsShrinkTheFile(t *testing.T) {
	m := testFS(t)
	p, _ := mustOpen(t, m)
	large := Snapshot{}
	for o := range seq.Offset(100_000) {
		if large.Channels == nil {
			large.Channels = []Channel{{Name: "c"}}
		}
		f := &large.Channels[0].Position.Finished
		*f = append(*f, position.Range{From: 10*o + 1, End: 10*o + 3})
	}
	for _, s := range []Snapshot{large, large, sampleSnapshot(1), sampleSnapshot(2)} {
		if err := p.Save(s); err != nil {
			t.Fatal(err)
		}
	}
	for slot := range 2 {
		if info, err := m.Stat(p.path(slot)); err != nil || info.Size() > 2*maxKeptBuffer {
			t.Errorf("%s: %d bytes, %v", p.path(slot), info.Size(), err)
		}
	}
	if _, got := mustOpen(t, m); !cmp.Equal(got, sampleSnapshot(2)) {
		t.Error("the newest snapshot is not found")
	}
}

// damage changes the file of a slot.
func damage(t *testing.T, m *vfs.Mem, slot string, change func([]byte) []byte) {
	t.Helper()
	name := filepath.Join(testDir, slot)
	f, err := m.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	data, err := readSlot(f)
	if err != nil {
		t.Fatal(err)
	}
	f, err = m.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeAndClose(f, change(data)); err != nil {
		t.Fatal(err)
	}
}

func TestDamagedNewestSlotFallsBackAndIsReported(t *testing.T) {
	changes := map[string]func([]byte) []byte{
		"empty":       func([]byte) []byte { return nil },
		"cut":         func(b []byte) []byte { return b[:len(b)-1] },
		"header only": func(b []byte) []byte { return b[:imageHeader] },
		"zeroes":      func(b []byte) []byte { return make([]byte, len(b)) },
		"bit":         func(b []byte) []byte { b[len(b)/2] ^= 4; return b },
		"number":      func(b []byte) []byte { b[16] ^= 4; return b },
		"version":     func(b []byte) []byte { b[8] = 7; return b },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			m := testFS(t)
			p, _ := mustOpen(t, m)
			for n := 1; n <= 3; n++ {
				if err := p.Save(sampleSnapshot(n)); err != nil {
					t.Fatal(err)
				}
			}
			damage(t, m, slot1, change)
			p, got := mustOpen(t, m)
			if diff := cmp.Diff(sampleSnapshot(2), got); diff != "" || p.Damage() == nil {
				t.Fatalf("damage %v: %s", p.Damage(), diff)
			}
			if err := p.Save(sampleSnapshot(4)); err != nil {
				t.Fatal(err)
			}
			p, got = mustOpen(t, m)
			if diff := cmp.Diff(sampleSnapshot(4), got); diff != "" || p.Damage() != nil {
				t.Fatalf("not healed: %v: %s", p.Damage(), diff)
			}
			damage(t, m, slot0, change)
			damage(t, m, slot1, change)
			if _, _, err := openFiles(m, testDir); fate.Of(err) != fate.Corrupt {
				t.Fatalf("both damaged: %v", err)
			}
		})
	}
}

func TestLostSlotIsReported(t *testing.T) {
	m := testFS(t)
	p, _ := mustOpen(t, m)
	for n := 1; n <= 2; n++ {
		if err := p.Save(sampleSnapshot(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Remove(p.path(1)); err != nil {
		t.Fatal(err)
	}
	p, got := mustOpen(t, m)
	if diff := cmp.Diff(sampleSnapshot(2), got); diff != "" || p.Damage() == nil {
		t.Fatalf("damage %v: %s", p.Damage(), diff)
	}
}

func TestNewerPositionsAreRefused(t *testing.T) {
	m := testFS(t)
	p, _ := mustOpen(t, m)
	if err := p.Save(sampleSnapshot(1)); err != nil {
		t.Fatal(err)
	}
	damage(t, m, slot1, func(b []byte) []byte {
		b[8]++
		sum := imageSum(b)
		copy(b[4:], []byte{byte(sum), byte(sum >> 8), byte(sum >> 16), byte(sum >> 24)})
		return b
	})
	if _, _, err := openFiles(m, testDir); !errors.Is(err, errNewer) || fate.Of(err) != fate.Refused {
		t.Fatal(err)
	}
}

func TestTooLongNameIsRefused(t *testing.T) {
	m := testFS(t)
	p, _ := mustOpen(t, m)
	err := p.Save(Snapshot{Channels: []Channel{{Name: string(make([]byte, 256))}}})
	if fate.Of(err) != fate.Refused || p.Number() != 0 {
		t.Fatal(err)
	}
}

// TestPowerCutKeepsSavedPositions cuts the power after every operation of a
// history, many times: the last saved snapshot, or the one being saved, is
// found.
func TestPowerCutKeepsSavedPositions(t *testing.T) {
	rng := testrand.New(t)
	m := vfs.NewCrashable()
	saved, saving := 0, 0
	m.Observe(func(op vfs.Op) {
		if op.Kind == vfs.OpMkdir {
			return
		}
		for i := range 12 {
			crash := vfs.Crash{Rand: rng, KeepPercent: 10 * i, TornPercent: 50}
			clone := m.CrashClone(crash)
			p, got, err := openFiles(clone, testDir)
			if err != nil {
				t.Fatalf("after %v: %v", op, err)
			}
			if n := int(p.Number()); n != saved && n != saving {
				t.Fatalf("after %v: found %d, saved %d, saving %d (%v)", op, n, saved, saving, p.Damage())
			}
			if p.Number() > 0 && !cmp.Equal(sampleSnapshot(int(p.Number())), got) {
				t.Fatalf("after %v: snapshot %d is not what was saved", op, p.Number())
			}
			if err := p.Save(sampleSnapshot(int(p.Number()) + 1)); err != nil {
				t.Fatalf("after %v: save: %v", op, err)
			}
		}
	})
	if err := errors.Join(m.MkdirAll(testDir), m.SyncDir(".")); err != nil {
		t.Fatal(err)
	}
	p, _ := mustOpen(t, m)
	for saving = 1; saving <= 12; saving++ {
		if err := p.Save(sampleSnapshot(saving)); err != nil {
			t.Fatal(err)
		}
		saved = saving
	}
}

// TestFailedSaveKeepsThePreviousOne fails operations at random, reopens at
// random (a killed process, whose writes are not on disk yet), and cuts the
// power after each step.
func TestFailedSaveKeepsThePreviousOne(t *testing.T) {
	rng := testrand.New(t)
	for round := range 150 {
		m := testFS(t)
		faulty := vfstest.NewFaulty(m)
		p, _ := mustOpen(t, faulty)
		saved := 0
		for step := range 20 {
			failing := rng.IntN(3) == 0
			if failing {
				left := rng.IntN(7)
				faulty.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
					if left--; left >= 0 {
						return vfstest.Fault{}
					}
					return vfstest.Fault{Err: syscall.ENOSPC, Short: rng.IntN(int(op.Len) + 1)}
				})
			}
			next := int(p.Number()) + 1
			err := p.Save(sampleSnapshot(next))
			faulty.Decide(nil)
			switch {
			case err == nil:
				saved = next
			case !failing || !errors.Is(err, syscall.ENOSPC):
				t.Fatalf("round %d step %d: %v", round, step, err)
			}
			clone := m.CrashClone(vfs.Crash{Rand: rng, KeepPercent: rng.IntN(101), TornPercent: 30})
			q, got := mustOpen(t, clone)
			if n := int(q.Number()); n < saved || n > next || n > 0 && !cmp.Equal(sampleSnapshot(n), got) {
				t.Fatalf("round %d step %d: found %d, saved %d, tried %d", round, step, n, saved, next)
			}
			if rng.IntN(3) == 0 {
				// From here on, the snapshot that is readable now counts.
				p, got = mustOpen(t, faulty)
				if n := int(p.Number()); n < saved || n > 0 && !cmp.Equal(sampleSnapshot(n), got) {
					t.Fatalf("round %d step %d: reopened %d, saved %d", round, step, n, saved)
				}
			}
		}
	}
}

func TestPositionsFileIsGolden(t *testing.T) {
	data, err := appendSnapshot(nil, 7, Snapshot{BacklogFrom: 5, Addressed: 4, PausedAt: new(seq.Offset(300)), Channels: []Channel{
		{Name: "a", Version: 9, Position: position.Position{Floor: 20}},
		{Name: "b", Version: 300, Position: sampleSnapshot(1).Channels[0].Position},
	}})
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/positions.golden", hex.Dump(data))
}

// Channels are found by binary search, so an image with another order must be sorted when it is read.
func TestDecodedChannelsAreSorted(t *testing.T) {
	data := told(t, 1, Snapshot{Channels: []Channel{
		{Name: "c", Position: position.Position{Floor: 3}}, {Name: "a", Position: position.Position{Floor: 1}}, {Name: "b", Position: position.Position{Floor: 2}},
	}})
	_, snap, err := decodeSnapshot(data)
	if err != nil {
		t.Fatal(err)
	}
	for want, name := range []string{"a", "b", "c"} {
		if i, found := snap.find(name); i != want || !found || snap.Channels[i].Position.Floor != seq.Offset(want+1) {
			t.Errorf("channel %q is at %d (%v) of %v", name, i, found, snap.Channels)
		}
	}
	if i, found := snap.find("bb"); i != 2 || found {
		t.Errorf("a channel that is missing is at %d (%v), want 2", i, found)
	}
}

func FuzzPositionsFile(f *testing.F) {
	for n := range 4 {
		data, err := appendSnapshot(nil, uint64(n+1), sampleSnapshot(n))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data[imageSummed:])
	}
	f.Fuzz(func(t *testing.T, rest []byte) {
		// The fuzzer gets a correct checksum: otherwise it would never get past
		// it.
		file := append([]byte(imageMagic+"sum."), rest...)
		if len(file) >= imageHeader {
			length := min(len(file)-imageHeader, int(file[12])|int(file[13])<<8)
			file[12], file[13], file[14], file[15] = byte(length), byte(length>>8), 0, 0
			sum := imageSum(file[:imageHeader+length])
			copy(file[4:], []byte{byte(sum), byte(sum >> 8), byte(sum >> 16), byte(sum >> 24)})
		}
		number, snap, err := decodeSnapshot(file)
		if err != nil {
			if !errors.Is(err, errDamaged) && !errors.Is(err, errNewer) {
				t.Fatal(err)
			}
			return
		}
		again, err := appendSnapshot(nil, number, snap)
		if err != nil {
			return // a name that is too long was never written
		}
		number2, snap2, err := decodeSnapshot(again)
		if err != nil || number2 != number || !cmp.Equal(snap, snap2) {
			t.Fatalf("%v: %s", err, cmp.Diff(snap, snap2))
		}
		if third, _ := appendSnapshot(nil, number, snap2); !bytes.Equal(again, third) {
			t.Fatal("encoding is not stable")
		}
	})
}

func BenchmarkSavePositions(b *testing.B) {
	p, _, err := openFiles(vfs.NewMem(), ".")
	if err != nil {
		b.Fatal(err)
	}
	s := sampleSnapshot(4)
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Save(s); err != nil {
			b.Fatal(err)
		}
	}
}
