package commitlog

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog/segmenthead"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Preallocation grows with the segment, so that a log with little content is small on disk.
const (
	minGrow = 64 << 10
	maxGrow = 4 << 20

	// appendSample is the number of batches of which one is timed: not every batch should read the
	// clock twice.
	appendSample = 16
)

// output is a segment being written. Its fields are guarded by the log's wmu, except file, which
// does not change, and newName, which serial guards.
type output struct {
	seg       *segment
	file      vfs.File
	allocated int64         // size of the file: blocks are reserved up to here
	filled    int64         // blocks below were written before, with zeros or batches
	filling   chan struct{} // closed when the current fill has ended; nil: there is none
	fillLimit int64         // end of the current fill
	noFill    bool          // a fill found no disk space
	newName   bool          // the directory has not been synced since the file was created
	unsynced  int64         // bytes written since the last sync began
}

// createOutput creates the file of a new segment, with room for the given bytes. After a failure
// the next Open removes an incomplete segment.
func createOutput(fsys vfs.FS, dir string, base seq.Offset, basePos, room int64) (*output, error) {
	c := &contents{base: base, basePos: basePos, end: base, size: segmenthead.Bytes, maxTime: noTime}
	seg := newSegment(segmentPath(dir, base), c)
	if err := fsys.Remove(seg.indexPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := fsys.Create(seg.path)
	if err != nil {
		return nil, err
	}
	o := &output{seg: seg, file: f, newName: true, allocated: max(room, segmenthead.Bytes), filled: segmenthead.Bytes}
	if room > 0 {
		err = f.Preallocate(0, room)
	}
	if err == nil {
		_, err = f.WriteAt(segmenthead.Encode(base, basePos), 0)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), fsys.Remove(seg.path))
	}
	seg.pin(nil)
	return o, nil
}

// reopenOutput opens the last segment for writing.
func reopenOutput(fsys vfs.FS, seg *segment, indexBytes int64) (*output, error) {
	if _, err := seg.acquire(fsys); err != nil {
		return nil, err
	}
	defer seg.release()
	index, err := seg.entries(fsys, indexBytes)
	if err != nil {
		return nil, err
	}
	f, err := fsys.OpenReadWrite(seg.path)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	// The index now describes a shorter segment. It would not be trusted, but it need not stay.
	if err := fsys.Remove(seg.indexPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, f.Close())
	}
	seg.pin(index[:len(index):len(index)])
	return &output{seg: seg, file: f, allocated: size, filled: size}, nil
}

// reserve extends the file for a write up to end.
func (o *output) reserve(end, segmentBytes int64) error {
	if end <= o.allocated {
		return nil
	}
	step := min(max(o.allocated, minGrow), maxGrow)
	want := max(end, min(o.allocated+step, segmentBytes))
	err := o.file.Preallocate(o.allocated, want-o.allocated)
	if err != nil && vfs.LacksRoom(err) && want > end {
		want = end
		err = o.file.Preallocate(o.allocated, want-o.allocated)
	}
	if err == nil {
		o.allocated = want
	}
	return err
}

// write writes a batch at the segment's end. A write without disk space is undone; undone is false
// after any other failure.
func (o *output) write(l *Log, raw []byte, synced bool) (undone bool, err error) {
	if l.opts.OnAppend == nil || l.counts.appends.Load()%appendSample != 0 {
		return o.writeBatch(raw, synced)
	}
	began := time.Now()
	undone, err = o.writeBatch(raw, synced)
	l.opts.OnAppend(time.Since(began))
	return undone, err
}

func (o *output) writeBatch(raw []byte, synced bool) (undone bool, err error) {
	at := o.seg.size.Load()
	write := vfs.File.WriteAt
	if synced {
		write = vfs.WriteDeferred
	}
	n, err := write(o.file, raw, at)
	if err == nil {
		o.filled = max(o.filled, at+int64(len(raw)))
		o.unsynced += int64(len(raw))
		return true, nil
	}
	if !vfs.LacksRoom(err) {
		return false, err
	}
	if n == 0 {
		return true, err
	}
	if terr := o.file.Truncate(at); terr != nil {
		return false, errors.Join(err, terr)
	}
	o.allocated, o.filled = at, at
	return true, err
}

// trim releases the reserved space after the last batch. No fill runs.
func (o *output) trim() error {
	size := o.seg.size.Load()
	if o.allocated <= size {
		return nil
	}
	if err := o.file.Truncate(size); err != nil {
		return err
	}
	o.allocated, o.filled = size, size
	return nil
}

// waitFill waits until no fill runs. The log starts none for a segment that it no longer writes, or
// while serial is held.
func (o *output) waitFill(l *Log) {
	l.wmu.Lock()
	filling := o.filling
	l.wmu.Unlock()
	if filling != nil {
		<-filling
	}
}

// complete completes a segment: the file gets its exact size and an index. Everything in it is
// durable afterwards. No fill runs.
func (o *output) complete(l *Log) error {
	seg := o.seg
	size := seg.size.Load()
	err := o.file.Truncate(size)
	if err == nil {
		err = timedSync(l, o.file)
	}
	if cerr := o.file.Close(); err == nil {
		err = cerr
	}
	if err == nil && o.newName {
		err = l.fs.SyncDir(l.dir)
	}
	if err != nil {
		return l.fail(err)
	}
	o.newName = false
	if err := seg.writeIndex(l.fs, l.Epochs()); err != nil && !vfs.LacksRoom(err) {
		return l.fail(err)
	}
	seg.unpin()
	return nil
}

func (o *output) abandon() { _ = o.file.Close() }

// writeIndex writes the index file of a complete segment. Without one the next Open reads the whole
// segment.
func (s *segment) writeIndex(fsys vfs.FS, epochs []EpochStart) error {
	s.mu.Lock()
	c := contents{
		base: s.base, basePos: s.basePos, end: s.endOffset(), size: s.size.Load(), maxTime: s.maxTime.Load(),
		damage: s.damage, entries: s.index,
	}
	s.mu.Unlock()
	c.epochs = cutEpochs(epochs, c.base, c.end)
	if err := vfs.WriteFileSynced(fsys, s.indexPath(), c.encode()); err != nil {
		return fmt.Errorf("index %s: %w", filepath.Base(s.path), err)
	}
	return nil
}

// sync syncs what was written, and the segment's name if it is new.
func (o *output) sync(l *Log) error {
	if err := timedSync(l, o.file); err != nil {
		return l.fail(err)
	}
	if !o.newName {
		return nil
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		return l.fail(err)
	}
	o.newName = false
	return nil
}

// timedSync syncs a file and counts it.
func timedSync(l *Log, f vfs.File) error {
	began := time.Now()
	err := f.SyncData()
	noteSync(l, time.Since(began))
	return err
}

func noteSync(l *Log, took time.Duration) {
	l.counts.syncs.Add(1)
	if l.opts.OnSync != nil {
		l.opts.OnSync(took)
	}
}
