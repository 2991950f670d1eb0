package redo

import (
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/vfs"
)

// volumeAlone is how long a sync of the volume is waited for before files are also synced one by one: it
// waits for what other programs have written to the volume, which can be gigabytes.
const volumeAlone = time.Second

// flushHalf syncs all files that are live in a half, and then marks the half as settled.
func (j *journal) flushHalf(half int, sealed head) {
	j.notes.markSettling(half, true)
	defer j.notes.markSettling(half, false)
	j.mu.Lock()
	all := make([]*file, 0, len(j.lives[half]))
	for f := range j.lives[half] {
		all = append(all, f)
	}
	at := j.halves[half]
	j.mu.Unlock()
	err := j.syncFiles(all)
	if err == nil {
		err = untilFiles(func() error {
			if _, err := at.WriteAt(sealed.encode(), 0); err != nil {
				return err
			}
			return vfs.SyncAside(at)
		})
	}
	j.mu.Lock()
	j.settling = nil
	if err != nil {
		_ = j.failLocked(err)
		j.mu.Unlock()
		return
	}
	for f := range j.lives[half] {
		f.live.Store(f.live.Load() &^ (1 << half))
	}
	j.lives[half] = nil
	j.mu.Unlock()
	for _, f := range all {
		j.drop(f)
	}
}

// syncFiles makes everything durable that was written to live files before the call, and the notes
// about them that wait in memory are written. Many files are synced with one call for their volume.
func (j *journal) syncFiles(all []*file) error {
	for _, f := range all {
		if err := errors.Join(j.notes.flush(f), j.land(f)); err != nil {
			return err
		}
	}
	var volume <-chan error // nil: the volume is not being synced
	if j.o.VolumeFrom > 0 && len(all) >= j.o.VolumeFrom {
		volume = j.volume.begin(&j.tasks)
	}
	if volume != nil {
		alone := time.NewTimer(volumeAlone)
		defer alone.Stop()
		select {
		case err := <-volume:
			if err == nil {
				return nil
			}
			// The error names no file, and may be another program's.
		case <-alone.C:
		}
	}
	for _, f := range all {
		select {
		case err := <-volume:
			if err == nil {
				return nil
			}
		default:
		}
		if j.live(f) {
			if err := syncFile(j.fs, f.path); err != nil {
				return err
			}
		}
	}
	return nil
}

// volume is the volume of all files.
type volume struct {
	vfs.Volume             // nil: there is none, files are synced one by one
	busy       atomic.Bool // it is being synced
}

// begin begins to sync the volume as one of the tasks, and returns a channel for the result. It returns
// nil if there is no volume, or if an earlier sync of it has not ended.
func (v *volume) begin(tasks *sync.WaitGroup) <-chan error {
	if v.Volume == nil || !v.busy.CompareAndSwap(false, true) {
		return nil
	}
	result := make(chan error, 1)
	tasks.Go(func() {
		err := v.Sync()
		v.busy.Store(false)
		result <- err
	})
	return result
}

// While the process has no descriptor for a file the journal waits, but not forever: another process has all.
const (
	filesFor   = time.Minute
	filesPause = 10 * time.Millisecond
)

// untilFiles calls do, and again while it lacks a descriptor. A failure would fail the journal, and with it the node,
// which connections can bring about.
func untilFiles(do func() error) error {
	err := do()
	if !vfs.OutOfFiles(err) {
		return err
	}
	for until := time.Now().Add(filesFor); vfs.OutOfFiles(err) && time.Now().Before(until); err = do() {
		time.Sleep(filesPause)
	}
	return err
}

// syncFile syncs a file by its name. One that is gone needs no sync.
func syncFile(fsys vfs.FS, path string) error {
	var h vfs.File
	err := untilFiles(func() (err error) {
		h, err = fsys.OpenReadWrite(path)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(untilFiles(func() error { return vfs.SyncAside(h) }), h.Close())
}
