package redo

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// TestJournalWaitsForDescriptor makes the process lack a descriptor, temporarily and
// permanently, for each file of the journal: a failure of the journal ends the node.
func TestJournalWaitsForDescriptor(t *testing.T) {
	half := halfPath(small().Dir, 0)
	use := map[string]func(s *FS, f vfs.File) error{
		"to settle a file": func(s *FS, _ vfs.File) error { return settled(s) },
		"to read a file":   func(_ *FS, f vfs.File) error { return vfs.ReadFull(f, make([]byte, 6), 3) },
		"to write a record": func(_ *FS, f vfs.File) error {
			if _, err := vfs.WriteDeferred(f, []byte("ten"), 9); err != nil {
				return err
			}
			return f.SyncData()
		},
		"to sync a record": func(_ *FS, f vfs.File) error {
			if _, err := vfs.WriteDeferred(f, []byte("ten"), 9); err != nil {
				return err
			}
			return f.SyncData()
		},
		"to say that a half is settled": func(s *FS, _ vfs.File) error { return settled(s) },
		"to sync what a rename moves":   func(s *FS, _ vfs.File) error { return s.Rename(root+"/f", root+"/g") },
	}
	for about, op := range map[string]vfs.Op{
		"to settle a file":              {Kind: vfs.OpOpen, Name: root + "/f"},
		"to read a file":                {Kind: vfs.OpWrite, Name: root + "/f"},
		"to write a record":             {Kind: vfs.OpWrite, Name: half},
		"to sync a record":              {Kind: vfs.OpSyncData, Name: half},
		"to say that a half is settled": {Kind: vfs.OpWrite, Name: half},
		"to sync what a rename moves":   {Kind: vfs.OpSyncData, Name: root + "/f"},
	} {
		for _, lacks := range []time.Duration{filesFor / 2, 2 * filesFor} {
			synctest.Test(t, func(t *testing.T) {
				disk := vfs.NewCrashable()
				d := vfstest.NewFaulty(disk)
				o := small()
				o.FileBytes = 16 * latePiece
				s := begun(t, d, o)
				f := made(t, s, root+"/f")
				journaled(t, s, f, "one", 0)
				deferred(t, f, "twosix", 3)
				until := time.Now().Add(lacks)
				d.Decide(func(_ int64, is vfs.Op) vfstest.Fault {
					if is.Kind == op.Kind && is.Name == op.Name && time.Now().Before(until) {
						return vfstest.Fault{Err: syscall.EMFILE}
					}
					return vfstest.Fault{}
				})
				err := use[about](s, f)
				time.Sleep(time.Until(until))
				err = errors.Join(err, f.Close(), s.Close())
				if lacks < filesFor && err != nil || lacks > filesFor && err == nil {
					t.Errorf("%s, lacking it for %v: %v", about, lacks, err)
				}
				if again := mustOpen(t, disk.CrashClone(vfs.Crash{}), o); lacks > filesFor && raw(t, again, root+"/f")[:9] != "onetwosix" {
					t.Errorf("%s: after a replay the file holds %q", about, raw(t, again, root+"/f"))
				}
			})
		}
	}
}

// TestBatchDoesNotWaitForADescriptor keeps large pieces in memory until there is a descriptor: the
// goroutine that writes them also writes those of other logs.
func TestBatchDoesNotWaitForADescriptor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := vfstest.NewFaulty(vfs.NewCrashable())
		o := small()
		o.FileBytes = 16 * latePiece
		s := begun(t, d, o)
		f := made(t, s, root+"/f")
		journaled(t, s, f, "one", 0)
		d.Decide(failing(vfs.OpWrite, root+"/f", vfstest.Fault{Err: syscall.EMFILE}))
		began := time.Now()
		piece, at := make([]byte, latePiece/2), int64(3)
		for range 5 {
			deferred(t, f, string(piece), at)
			at += int64(len(piece))
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v", took)
		}
		d.Decide(nil)
		if size, err := f.Size(); err != nil || size != at {
			t.Errorf("the file has %d bytes of %d, %v", size, at, err)
		}
		if err := errors.Join(f.Close(), s.Close()); err != nil {
			t.Fatal(err)
		}
	})
}
