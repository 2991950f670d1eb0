package datadir

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/brokerd/brokerd/pkg/redo"
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

// TestKeptJournalIsReported: which partition lacks what a kept journal has, while the journal is
// there.
func TestKeptJournalIsReported(t *testing.T) {
	d := At(vfs.NewMem(), "data")
	if err := vfs.MkdirAllSynced(d.FS, d.Redo()); err != nil {
		t.Fatal(err)
	}
	journal := filepath.Join(d.Redo(), "journal-1.kept-7")
	if err := vfs.MarkSynced(d.FS, journal); err != nil {
		t.Fatal(err)
	}
	lacks := []redo.Lack{
		{Path: d.Topics() + "/a.b.12/3/00.log", From: 7},
		{Path: d.Topics() + "/a.b.12/3/07.log", From: 9},
		{Path: d.Topics() + "/a.b.12/1/00.log", Err: syscall.EIO},
		{Path: journal, Err: syscall.EIO},
	}
	got := d.KeptReasons(lacks)
	if len(got) != 1 || got[0].Code != "redo_journal_kept" || got[0].Count != 3 ||
		!strings.HasSuffix(got[0].What, ": a.b/1 a.b/3 unknown partitions in redo/journal-1.kept-7") {
		t.Errorf("%+v", got)
	}
	if err := d.FS.Remove(journal); err != nil {
		t.Fatal(err)
	}
	if got := d.KeptReasons(lacks); len(got) > 0 {
		t.Errorf("without the journal: %+v", got)
	}
}

// TestOnlySegmentsAreCompared with a kept journal.
func TestOnlySegmentsAreCompared(t *testing.T) {
	d := At(vfs.NewMem(), "data")
	for path, want := range map[string]bool{
		d.Topics() + "/a.1/0/00.log": true, d.Topics() + "/a.1/0/positions.journal.0": false, d.Topics() + "/x.log": false, d.Scrubbed(): false,
	} {
		if d.isSegment(path) != want {
			t.Error(path)
		}
	}
}
