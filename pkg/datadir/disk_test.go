package datadir

import (
	"bytes"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

func newStart(t *testing.T, d Dir) *Start {
	t.Helper()
	s, damaged, err := d.NewStart()
	if err != nil || damaged {
		t.Fatalf("damaged %v, %v", damaged, err)
	}
	return s
}

// register applies the registration of a start of n1, and returns what it says of the disk.
func register(t *testing.T, state *meta.State, s *Start) (outdated bool) {
	t.Helper()
	c := meta.NodeStarted{Node: meta.Node{ID: "n1"}}
	s.Register(&c)
	r := state.Apply(state.Index()+1, c)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	return r.Node.Outdated
}

// TestOnlyTheLastCopyOfADiskIsCurrent starts a node at random with its directory, with copies of it that were made
// at any moment before, and with others, and stops it anywhere in its starts. Its start is outdated if and only if
// the directory is not the one in which the last registered start was made, or a later copy of that.
func TestOnlyTheLastCopyOfADiskIsCurrent(t *testing.T) {
	type copied struct {
		text []byte
		at   int // the number of registrations before the copy was made
	}
	r := testrand.New(t)
	for range 200 {
		state := new(meta.State)
		d := At(vfs.NewMem(), "data")
		if err := d.FS.MkdirAll("data"); err != nil {
			t.Fatal(err)
		}
		var copies []copied
		registered := 0 // registrations so far
		has := 0        // how many of them the directory knows of
		for range 60 {
			if r.IntN(5) == 0 && len(copies) > 0 {
				old := copies[r.IntN(len(copies))]
				if err := vfs.WriteFileSynced(d.FS, d.disk(), old.text); err != nil {
					t.Fatal(err)
				}
				has = old.at
			} else if r.IntN(20) == 0 && has == registered {
				_ = d.FS.Remove(d.disk())
				has = -1
			}
			s := newStart(t, d)
			if r.IntN(4) > 0 {
				want := registered > 0 && has != registered
				if got := register(t, state, s); got != want {
					t.Fatalf("outdated %v after %d registrations, the directory knows of %d: %+v, %+v", got, registered, has, s.file, state.Node("n1").Disk)
				}
				registered++
				has = registered
				if r.IntN(4) > 0 || state.Node("n1").Outdated {
					if _, err := s.Registered(state.Node("n1")); err != nil {
						t.Fatal(err)
					}
				}
			}
			text, err := vfs.ReadFile(d.FS, d.disk(), maxDiskFile)
			if err != nil {
				t.Fatal(err)
			}
			copies = append(copies, copied{text, has})
			if state.Node("n1") != nil && state.Node("n1").Outdated { // the next start says that it is marked
				if register(t, state, newStart(t, d)) {
					t.Fatal("still outdated")
				}
				registered++
				has = registered
			}
		}
	}
}

// TestDamagedIdentityIsAnother: of a damaged file it is not known which starts it follows.
func TestDamagedIdentityIsAnother(t *testing.T) {
	d := At(vfs.NewMem(), "data")
	if err := d.FS.MkdirAll("data"); err != nil {
		t.Fatal(err)
	}
	id := newStart(t, d).file.ID
	whole, err := vfs.ReadFile(d.FS, d.disk(), maxDiskFile)
	if err != nil {
		t.Fatal(err)
	}
	for i := range bytes.IndexByte(whole[diskSlot:], '\n') + 1 {
		i += diskSlot // the first start is in the second slot
		for _, text := range [][]byte{whole[:i], append(bytes.Clone(whole[:i]), append([]byte{whole[i] ^ 1}, whole[i+1:]...)...)} {
			if err := vfs.WriteFileSynced(d.FS, d.disk(), text); err != nil {
				t.Fatal(err)
			}
			s, damaged, err := d.NewStart()
			if err != nil || !damaged || s.file.ID == id || s.file.Starts != 1 {
				t.Fatalf("byte %d: damaged %v, %+v, %v", i, damaged, s.file, err)
			}
			newStart(t, d)
		}
	}
}

// TestPendingStartsAreBounded: a node that starts often without a majority forgets none that counts.
func TestPendingStartsAreBounded(t *testing.T) {
	d := At(vfs.NewMem(), "data")
	if err := d.FS.MkdirAll("data"); err != nil {
		t.Fatal(err)
	}
	state := new(meta.State)
	s := newStart(t, d)
	register(t, state, s)
	if _, err := s.Registered(state.Node("n1")); err != nil {
		t.Fatal(err)
	}
	for range 3 * maxPending {
		s = newStart(t, d)
	}
	if len(s.file.Follows) > maxPending || s.file.Starts != 2 || register(t, state, s) {
		t.Errorf("start %d, %d earlier ones kept: %+v", s.file.Starts, len(s.file.Follows), state.Node("n1"))
	}
}

// TestReplicasOfOutdatedDiskAreMarked: before the file says so.
func TestReplicasOfOutdatedDiskAreMarked(t *testing.T) {
	d := At(vfs.NewMem(), "data")
	topic := d.Topic("t", 5)
	for _, dir := range []string{"0", "1"} {
		if err := vfs.MkdirAllSynced(d.FS, filepath.Join(topic, dir)); err != nil {
			t.Fatal(err)
		}
	}
	s := newStart(t, d)
	if n, err := s.Registered(&meta.Node{Outdated: true}); n != 2 || err != nil {
		t.Fatalf("%d replicas, %v", n, err)
	}
	for _, dir := range []string{"0", "1"} {
		names, err := d.FS.ReadDir(filepath.Join(topic, dir))
		if err != nil || !slices.Equal(names, []string{MarkOutdated}) {
			t.Errorf("replica %s: %q, %v", dir, names, err)
		}
	}
	var c meta.NodeStarted
	if newStart(t, d).Register(&c); c.Marked != s.file.Start {
		t.Error("the next start does not say that the replicas are marked")
	}
}

// TestStartNeedsNoRoomOnTheDisk: a node with a full disk starts, or it could not free any.
func TestStartNeedsNoRoomOnTheDisk(t *testing.T) {
	disk := vfstest.NewFaulty(vfs.NewMem())
	d := At(disk, "data")
	if err := d.FS.MkdirAll("data"); err != nil {
		t.Fatal(err)
	}
	first := newStart(t, d)
	disk.Decide(func(_ int64, op vfs.Op) (f vfstest.Fault) {
		if op.Kind == vfs.OpCreate {
			f.Err = syscall.ENOSPC
		}
		return f
	})
	for range 3 {
		s := newStart(t, d)
		if s.file.ID != first.file.ID {
			t.Fatalf("%+v, want the disk %s", s.file, first.file.ID)
		}
		if _, err := s.Registered(&meta.Node{Disk: meta.Disk{Starts: s.file.Starts}}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCutWriteOfIdentityLeavesTheLastOne: whatever part of a slot was written when the power was cut.
func TestCutWriteOfIdentityLeavesTheLastOne(t *testing.T) {
	d := At(vfs.NewMem(), "data")
	if err := d.FS.MkdirAll("data"); err != nil {
		t.Fatal(err)
	}
	first := newStart(t, d)
	before, err := vfs.ReadFile(d.FS, d.disk(), maxDiskFile)
	if err != nil {
		t.Fatal(err)
	}
	second := newStart(t, d)
	after, err := vfs.ReadFile(d.FS, d.disk(), maxDiskFile)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range bytes.IndexByte(after, '\n') + 1 {
		f, ok := decodeDiskFile(append(bytes.Clone(after[:cut]), before[cut:]...))
		if !ok || f.Start != first.file.Start {
			t.Fatalf("cut at %d: %+v, %v, want the start %s", cut, f, ok, first.file.Start)
		}
	}
	if f, ok := decodeDiskFile(after); !ok || f.Start != second.file.Start {
		t.Errorf("%+v, %v, want the start %s", f, ok, second.file.Start)
	}
}
