package datadir

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/brokerd/brokerd/pkg/vfs"
)

// TestEveryReplicaIsSuspect marks those of a directory in which there are also files, and a link to nothing.
func TestEveryReplicaIsSuspect(t *testing.T) {
	d := At(vfs.OS{}, t.TempDir())
	in := func(name string) string { return d.Topics() + "/" + name }
	for _, dir := range []string{"a.1/0", "a.1/1", "b.2", "c.3/0"} {
		if err := d.FS.MkdirAll(in(dir)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{".DS_Store", "aa", "a.1/README", "zz"} {
		f, err := d.FS.Create(in(name))
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(in("nothing"), in("b.link")); err != nil {
		t.Fatal(err)
	}
	if err := d.suspectAll(); err != nil {
		t.Fatal(err)
	}
	for _, replica := range []string{"a.1/0", "a.1/1", "c.3/0"} {
		if _, err := d.FS.Stat(in(replica + "/" + MarkSuspect)); err != nil {
			t.Error(err)
		}
	}
	if names, err := d.FS.ReadDir(in("b.2")); err != nil || len(names) > 0 {
		t.Errorf("in a topic without replicas there is %q, %v", names, err)
	}
}

// TestUnwritableFileMakesItsReplicaSuspect also has files that belong to no replica: the node cannot start without
// their content.
func TestUnwritableFileMakesItsReplicaSuspect(t *testing.T) {
	d := At(vfs.NewMem(), "data")
	for _, replica := range []string{"a.1/0", "a.1/1"} {
		if err := vfs.MkdirAllSynced(d.FS, filepath.Join(d.Topics(), replica)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]error{
		d.Topics() + "/a.1/1/0.log": nil,
		d.Topics() + "/a.1/1/c/d":   nil,
		d.Topics() + "/a.1/1":       syscall.EIO,
		d.Topics() + "/a.1":         syscall.EIO,
		d.Scrubbed():                syscall.EIO,
		d.Topics() + "/gone.2/0/x":  fs.ErrNotExist,
	} {
		if err := d.suspectOwner(path, syscall.EIO, slog.New(slog.DiscardHandler)); !errors.Is(err, want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if names, err := d.FS.ReadDir(d.Topics() + "/a.1/1"); err != nil || !slices.Equal(names, []string{MarkSuspect}) {
		t.Errorf("in the replica of the file is %q, %v", names, err)
	}
	if names, err := d.FS.ReadDir(d.Topics() + "/a.1/0"); err != nil || len(names) > 0 {
		t.Errorf("in the other replica is %q, %v", names, err)
	}
}

// TestKeptJournalsAreFound among others.
func TestKeptJournalsAreFound(t *testing.T) {
	d := At(vfs.NewMem(), "data")
	if err := vfs.MkdirAllSynced(d.FS, d.Redo()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"journal-0", "journal-1.kept-7"} {
		if err := vfs.MarkSynced(d.FS, filepath.Join(d.Redo(), name)); err != nil {
			t.Fatal(err)
		}
	}
	if got := d.keptJournals(); !slices.Equal(got, []string{filepath.Join(d.Redo(), "journal-1.kept-7")}) {
		t.Errorf("kept: %q", got)
	}
}
