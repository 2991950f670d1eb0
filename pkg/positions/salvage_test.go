package positions

import (
	"errors"
	"testing"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/advance"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// A power cut while the first positions are stored leaves them, or no sign that there were any.
func TestPowerCutDuringTheFirstCheckpointIsNoDamage(t *testing.T) {
	disk := vfs.NewCrashable()
	if err := errors.Join(disk.MkdirAll("p"), disk.SyncDir(".")); err != nil {
		t.Fatal(err)
	}
	rng := testrand.New(t)
	disk.Observe(func(op vfs.Op) {
		for range 20 {
			clone := disk.CrashClone(vfs.Crash{Rand: rng, KeepPercent: 50, TornPercent: 50})
			if _, _, err := openFiles(clone, "p"); err != nil {
				t.Fatalf("after %v: %v", op, err)
			}
		}
	})
	p, _, err := openFiles(disk, "p")
	if err == nil {
		err = errors.Join(p.Save(sampleSnapshot(1)), p.Save(sampleSnapshot(2)))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestStandbyWithDamagedPositionsStartsNewSeries(t *testing.T) {
	m := testFS(t)
	p, _ := mustOpen(t, m)
	change := advance.Change{Channel: "c", Version: 1, Floor: 77, Offset: 77}.Append(nil)
	for n := 1; n <= 6; n++ {
		if err := errors.Join(p.Begin(), p.Save(sampleSnapshot(n)), p.Append(change)); err != nil {
			t.Fatal(err)
		}
	}
	for slot := range 2 {
		f, err := m.OpenReadWrite(p.path(slot))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte{0xff}, 16); err != nil {
			t.Fatal(err)
		}
	}
	var told error
	s, err := openStandby(m, testDir, func(err error) { told = err })
	if err != nil || told == nil || s.Floor() != 0 {
		t.Fatal(err, told, s.Floor())
	}
	if _, _, err := openFiles(m, testDir); fate.Of(err) != fate.Corrupt {
		t.Errorf("before the leader has told anything: %v", err)
	}
	for n := uint32(1); n <= 9; n++ {
		image, err := appendSnapshot(nil, uint64(stampOf(1, n)), Snapshot{BacklogFrom: seq.Offset(n)})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Replace(image); err != nil {
			t.Fatal(err)
		}
		_, got, err := openFiles(m, testDir)
		if err != nil || got.BacklogFrom != seq.Offset(n) || len(got.Channels) > 0 {
			t.Fatalf("after snapshot %d: %+v, %v", n, got, err)
		}
	}
}
