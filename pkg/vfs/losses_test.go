package vfs_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/redo"
	"github.com/brokerd/brokerd/pkg/vfs"
)

func openOf(t *testing.T, open func(string) (vfs.File, error), name string) vfs.File {
	t.Helper()
	f, err := open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// TestFailedSyncIsReportedToEveryHandle makes the sync fail with which a file gives up its descriptor:
// every handle of the file, opened by any name, reports the error until the file is created again.
func TestFailedSyncIsReportedToEveryHandle(t *testing.T) {
	for about, renew := range map[string]func(s vfs.OS, name string) error{
		"emptied": func(vfs.OS, string) error { return nil },
		"removed": vfs.OS.Remove,
		"renamed": func(s vfs.OS, name string) error { return s.Rename(name, name+".aside") },
	} {
		t.Run(about, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "f")
			s := vfs.OS{Files: vfs.NewFiles(1024, vfs.FilesEvents{})}
			owner, other := openOf(t, s.Create, name), openOf(t, s.OpenReadWrite, name)
			reader := openOf(t, s.Open, name)
			if _, err := owner.WriteAt([]byte("x"), 0); err != nil {
				t.Fatal(err)
			}
			vfs.FailDataSyncs(t, name, 1)
			for vfs.GiveUp(s.Files) { // also the other handle, which has written nothing
				continue
			}
			told := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), name) {
					t.Errorf("%s: %v", what, err)
				}
			}
			told("the owner", owner.SyncData())
			told("another handle", other.SyncData())
			told("a handle for reading", reader.SyncData())
			told("the same, as a whole", reader.Sync())
			_, err := s.OpenReadWrite(name)
			told("who opens it", err)
			if p, err := vfs.ReadFile(s, name, 10); err != nil || string(p) != "x" {
				t.Errorf("who reads it gets %q, %v", p, err)
			}
			if err := renew(s, name); err != nil {
				t.Fatal(err)
			}
			if about == "renamed" {
				_, err := s.OpenReadWrite(name + ".aside")
				told("who opens it by another name", err)
			}
			again := openOf(t, s.Create, name)
			if _, err := again.WriteAt([]byte("y"), 0); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(again.SyncData(), vfs.SyncAside(again), again.Sync()); err != nil {
				t.Errorf("the new file: %v", err)
			}
			if f, err := s.OpenReadWrite(name); err != nil || f.Close() != nil {
				t.Errorf("who opens the new file: %v", err)
			}
		})
	}
}

// TestJournalKeepsWhatAFileMayHaveLost loses data of a log's file that the journal holds. The
// journal's sync of the file does not notice the loss.
func TestJournalKeepsWhatAFileMayHaveLost(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "log")
	s := vfs.OS{Files: vfs.NewFiles(1024, vfs.FilesEvents{})}
	failed := make(chan error, 1)
	o := redo.Options{Root: dir, Dir: filepath.Join(dir, "redo"), Together: 1, FileBytes: 1 << 20, Age: time.Hour, Failed: func(err error) { failed <- err }}
	journal, _, err := redo.Open(s, o)
	if err != nil {
		t.Fatal(err)
	}
	f := openOf(t, journal.Create, name)
	write := func(at int64) {
		if _, err := f.WriteAt([]byte("acked"), at); err != nil {
			t.Fatal(err)
		}
		if err := f.SyncData(); err != nil {
			t.Fatal(err)
		}
	}
	at := int64(0)
	for ; !vfs.Deferred(f); at += 5 { // the journal is being made
		write(at)
	}
	write(at)
	vfs.FailDataSyncs(t, name, 1)
	for vfs.GiveUp(s.Files) {
		continue
	}
	if err := journal.Close(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("the journal closed with %v", err)
	}
	if err := <-failed; !errors.Is(err, syscall.EIO) {
		t.Errorf("the journal failed with %v", err)
	}
	if err := os.Truncate(name, at); err != nil { // what the disk lost
		t.Fatal(err)
	}
	s.Files = vfs.NewFiles(1024, vfs.FilesEvents{}) // the next process
	if _, r, err := redo.Open(s, o); err != nil || r.Records == 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if p, err := os.ReadFile(name); err != nil || string(p[at:]) != "acked" {
		t.Errorf("after the replay the file ends with %q, %v", p[at:], err)
	}
}
