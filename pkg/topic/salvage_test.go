package topic

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/advance"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/positions"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// spoilFiles damages every snapshot of a bench.
func (b *bench) spoilFiles() {
	b.t.Helper()
	for _, name := range []string{"positions.0", "positions.1"} {
		f, err := b.fs.OpenReadWrite(filepath.Join("p", name))
		if err != nil {
			b.t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte{0xff}, 16); err != nil {
			b.t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			b.t.Fatal(err)
		}
	}
}

// reopen opens the partition again after a stop without a last checkpoint.
func (b *bench) reopen(salvage bool) (lost bool, err error) {
	b.t.Helper()
	p, err := Open(Options{
		Index: 3, FS: b.fs, Dir: "p", Log: b.log, Arm: func(*Channel) {}, Observer: deaf{}, Salvage: salvage,
		Ages: b.ages, Now: func() time.Time { return b.now },
		PositionsDamaged: func(_ error, l bool) { lost = lost || l },
	})
	if err == nil {
		p.Serve(b)
		b.p = p
	}
	return lost, err
}

func floors(b *bench, names ...string) []seq.Offset {
	b.t.Helper()
	var all []seq.Offset
	for i, name := range names {
		all = append(all, b.channel(name, uint64(i+1)).Floor())
	}
	return all
}

// readTo publishes five messages and has two channels finish them.
func readTo(t *testing.T) *bench {
	b := newBench(t)
	b.channel("a", 1)
	b.channel("b", 2)
	b.publish("1", "2", "3", "4", "5")
	for _, name := range []string{"a", "b"} {
		if err := b.p.Channel(name).Seek(5); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func TestDamagedPositionsAreSalvagedOnlyWhenAsked(t *testing.T) {
	b := readTo(t)
	b.spoilFiles()
	if _, err := b.reopen(false); fate.Of(err) != fate.Corrupt {
		t.Fatalf("opened damaged positions: %v", err)
	}
	if _, err := b.reopen(false); fate.Of(err) != fate.Corrupt {
		t.Fatalf("the second look: %v", err)
	}
	lost, err := b.reopen(true)
	if err != nil || !lost {
		t.Fatal(lost, err)
	}
	if got := floors(b, "a", "b"); got[0] != 0 || got[1] != 0 {
		t.Errorf("channels start at %v, which skips messages", got)
	}
	b.p.ChannelsComplete()
	if got := b.channel("new", 9).Floor(); got != 5 {
		t.Errorf("a new channel starts at %d", got)
	}
	names, _ := b.fs.ReadDir("p")
	if !strings.Contains(strings.Join(names, " "), ".damaged") {
		t.Errorf("the damaged files are gone: %v", names)
	}
}

func TestLostPositionsSurviveAStop(t *testing.T) {
	for _, settled := range []bool{false, true} {
		b := readTo(t)
		b.spoilFiles()
		if _, err := b.reopen(true); err != nil {
			t.Fatal(err)
		}
		b.channel("a", 1) // its start is stored; the process stops before it handles b
		if settled {
			b.channel("b", 2)
			b.p.ChannelsComplete()
			if err := b.p.Checkpoint(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.reopen(false); err != nil {
			t.Fatal(err)
		}
		if got := floors(b, "a", "b"); got[0] != 0 || got[1] != 0 {
			t.Errorf("settled %v: channels start at %v, which skips messages", settled, got)
		}
		if got := b.channel("new", 9).Floor(); settled && got != 5 {
			t.Errorf("a new channel starts at %d", got)
		}
	}
}

func TestRemovedPositionsAreDamage(t *testing.T) {
	b := readTo(t)
	remove := func() {
		for _, name := range []string{"positions.0", "positions.1"} {
			if err := b.fs.Remove(filepath.Join("p", name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove()
	if _, err := b.reopen(false); fate.Of(err) != fate.Corrupt {
		t.Fatalf("opened without positions: %v", err)
	}
	if lost, err := b.reopen(true); err != nil || !lost {
		t.Fatal(lost, err)
	}
	if got := floors(b, "a", "b"); got[0] != 0 || got[1] != 0 {
		t.Errorf("channels start at %v, which skips messages", got)
	}
	b.p.ChannelsComplete()
	for range 2 { // after which both slots exist
		b.p.keeper.MarkDirty()
		if err := b.p.Checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
	if lost, err := b.reopen(false); err != nil || lost {
		t.Errorf("stored again: lost %v, %v", lost, err)
	}
	remove()
	var told error
	s, err := positions.OpenStandby(positions.StandbyOptions{FS: b.fs, Dir: "p", End: b.log.End(), Damaged: func(err error) { told = err }})
	if err != nil || told == nil || s.Floor() != 0 {
		t.Errorf("a follower without positions: %v, told %v, floor %d", err, told, s.Floor())
	}
}

// A new series of snapshots must not meet the changes that followed the old one.
func TestSalvagedPositionsIgnoreOlderJournal(t *testing.T) {
	b := readTo(t)
	note := advance.Change{Channel: "a", Version: 1, Floor: 4, Offset: 4}.Append(nil)
	for range 5 {
		b.p.keeper.MarkDirty()
		if err := errors.Join(b.p.Checkpoint(), b.p.keeper.Append(note)); err != nil {
			t.Fatal(err)
		}
	}
	b.spoilFiles()
	if _, err := b.reopen(true); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		b.channel("a", 1)
		b.p.keeper.MarkDirty()
		if err := b.p.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		if _, err := b.reopen(false); err != nil {
			t.Fatal(err)
		}
		if got := b.channel("a", 1).Floor(); got != 0 {
			t.Fatalf("a change of the old series counts: floor %d", got)
		}
	}
}

// TestPowerCutForgetsPositionsOfLostMessages: positions may be stored before the
// messages to which they refer. If a power cut loses those messages, the messages
// that take their offsets must not count as finished.
func TestPowerCutForgetsPositionsOfLostMessages(t *testing.T) {
	for _, role := range []string{"leader", "follower"} {
		disk := vfs.NewCrashable()
		b := &bench{t: t, fs: disk, now: t0}
		if err := errors.Join(disk.MkdirAll("p"), disk.SyncDir(".")); err != nil {
			t.Fatal(err)
		}
		b.open()
		r := b.join(b.channel("c", 1))
		b.publish("durable")
		b.lazy = true
		b.publish("lost", "lost too")
		r.take(3, t0)
		r.finish("durable", "lost")
		if err := b.p.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		b.fs = disk.CrashClone(vfs.Crash{})
		if role == "follower" {
			s, err := positions.OpenStandby(positions.StandbyOptions{FS: b.fs, Dir: "p", End: 1, Damaged: func(err error) { t.Error(err) }})
			if err != nil || s.Floor() != 1 {
				t.Fatal(err, s.Floor())
			}
			b.fs = b.fs.(*vfs.Mem).CrashClone(vfs.Crash{})
		}
		if err := b.log.Close(); err != nil {
			t.Fatal(err)
		}
		b.open()
		b.publish("new", "newer")
		want(t, "the "+role+" that lost power delivers", b.join(b.channel("c", 1)).take(9, t0), "new newer")
		if err := b.log.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
