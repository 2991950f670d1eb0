package redo

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/vfs"
)

// Limits of the entries of one record: a number of bytes, and a share of a small journal.
const (
	maxRecord   = 4 << 20
	recordShare = 4
)

// nameAgain is after how many records a file that is written is named again. Otherwise the loss of the record
// with its name would be the loss of all writes to it.
const nameAgain = 64

// errClosed says that the journal is closed.
var errClosed = errors.New("redo journal closed")

// journal is the two files and their state.
type journal struct {
	o      Options
	fs     vfs.FS
	volume volume
	drop   func(*file) // forgets a file that is not live any more, unless it is open
	notes  *notes
	tasks  sync.WaitGroup
	// buffers hold the unsynced bytes of files, entries hold requests, and pieces hold bytes that
	// wait to be written to files: they differ in size.
	buffers, entries, pieces buffers
	lateBytes                atomic.Int64 // size of the waiting pieces

	mu         sync.Mutex  // guards the fields below
	halves     [2]vfs.File // nil: not created yet
	making     bool
	retry      bool // they could not be created; the timer allows another try
	active     int  // the half to which records are written
	generation uint64
	number     uint64 // of the last record
	before     uint64 // of the last record of the generation before; 0: this process has written none
	tail       int64  // where the next record goes
	lives      [2]map[*file]struct{}
	lastFile   uint64
	settling   chan struct{} // closed when the other half has been settled; nil: it has been
	queue      []*request
	leading    bool // a caller writes for all callers
	timer      *time.Timer
	failed     error
	closed     bool

	record []byte // used by the leader
}

// request is what one caller wants in the journal.
type request struct {
	file    *file
	entries *[]byte // encoded, for a write
	kept    *[]byte // or the bytes of a write at a position in the file; neither: a void, or without a file a rotation
	at      int64
	waiter  *waiter
}

// size is approximately how many bytes the request takes in a record.
func (r *request) size() int {
	switch {
	case r.entries != nil:
		return len(*r.entries)
	case r.kept != nil:
		return len(*r.kept) + maxWriteHead
	}
	return 0
}

// waiter is a caller that waits for its requests. The journal's mu guards it.
type waiter struct {
	done chan turn // nil: the waiter leads
	left int       // requests that are queued or being written
	err  error
}

// turn ends a caller's wait: it has the result, or tells the caller to write for all.
type turn struct {
	lead bool
	err  error
}

func (j *journal) live(f *file) bool { return f.live.Load() != 0 }

// ready reports whether the journal's files exist. If they do not, it starts to create them.
func (j *journal) ready() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failed != nil || j.closed {
		return false
	}
	if j.halves[1] == nil && !j.making && !j.retry {
		j.making = true
		j.tasks.Go(j.make)
	}
	return j.halves[1] != nil
}

func halfPath(dir string, i int) string { return filepath.Join(dir, fmt.Sprintf("journal-%d", i)) }

// make creates the files and writes all their blocks: syncing such blocks takes half as long as
// syncing new ones.
func (j *journal) make() {
	var halves [2]vfs.File
	err := vfs.MkdirAllSynced(j.fs, j.o.Dir)
	for i := range halves {
		if err == nil {
			halves[i], err = makeHalf(j.fs, halfPath(j.o.Dir, i), j.o.FileBytes)
		}
	}
	if err == nil {
		err = j.fs.SyncDir(j.o.Dir)
	}
	if err != nil {
		for i, h := range halves {
			if h != nil {
				_ = h.Close()
			}
			_ = j.fs.Remove(halfPath(j.o.Dir, i)) // frees what it took of a full disk
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.making = false
	if err != nil {
		j.retry = true // direct syncs need no journal
		j.timer = time.AfterFunc(j.o.Age, j.forgive)
		return
	}
	j.halves = halves
	j.beginLocked(0)
}

func (j *journal) forgive() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.retry = false
}

func makeHalf(fsys vfs.FS, path string, size int64) (vfs.File, error) {
	f, err := fsys.Create(path)
	if err != nil {
		return nil, err
	}
	if err = f.Preallocate(0, size); err == nil {
		zeros := make([]byte, 1<<20)
		for off := int64(0); off < size && err == nil; off += int64(len(zeros)) {
			_, err = f.WriteAt(zeros[:min(int64(len(zeros)), size-off)], off)
		}
	}
	if err == nil {
		err = f.SyncData()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// beginLocked starts a new generation at the beginning of a half.
func (j *journal) beginLocked(half int) {
	j.active, j.tail, j.before, j.number = half, headBytes, j.number, 0
	j.generation++
	j.lives[half] = map[*file]struct{}{}
}

// write makes ranges of a file durable with their current content. kept is the bytes of the only
// range; nil: they have to be read.
func (j *journal) write(f *file, from io.ReaderAt, dirty spans, kept *[]byte) error {
	buffer := j.entries.get()
	defer j.entries.put(buffer)
	p := *buffer
	j.mu.Lock()
	number := f.numberLocked(j)
	j.mu.Unlock()
	if kept == nil {
		if err := j.land(f); err != nil {
			return err
		}
	}
	for _, x := range dirty {
		n := int(x.to - x.from)
		p = appendWriteHead(p, number, x.from, n)
		if kept != nil {
			p = append(p, *kept...)
			continue
		}
		at := len(p)
		p = append(p, make([]byte, n)...)
		if err := vfs.ReadFull(from, p[at:], x.from); err != nil {
			return err
		}
	}
	*buffer = p
	return j.submit(&request{file: f, entries: buffer})
}

// numberLocked returns the number that stands for a file in the journal.
func (f *file) numberLocked(j *journal) uint64 {
	if f.number == 0 {
		j.lastFile++
		f.number = j.lastFile
	}
	return f.number
}

// void records durably that the journal's writes of a file do not count any more.
func (j *journal) void(f *file) error {
	if !j.live(f) {
		return nil
	}
	defer j.notes.ended(f)
	if err := j.notes.write(f); err != nil {
		return j.fail(err)
	}
	return j.submit(&request{file: f})
}

// unsynced handles a failed direct sync of a file. If the file is live, the journal fails, so that
// it does not forget the file's writes: a later sync may succeed although the system has dropped
// the writes (LWN, "PostgreSQL's fsync() surprise", 2018).
func (j *journal) unsynced(f *file, err error) error {
	if j.live(f) {
		_ = j.fail(err)
	}
	return err
}

// flush syncs a live file itself, and then voids it.
func (j *journal) flush(f *file) error {
	if !j.live(f) {
		return nil
	}
	err := j.land(f)
	if err == nil {
		err = syncFile(j.fs, f.path)
	}
	if err != nil {
		return j.fail(err)
	}
	return j.void(f)
}

// submit writes and syncs requests together with those of other callers, in their order.
func (j *journal) submit(all ...*request) error {
	w := &waiter{left: len(all)}
	for _, r := range all {
		r.waiter = w
	}
	j.mu.Lock()
	if err := j.refusalLocked(); err != nil {
		j.mu.Unlock()
		return err
	}
	j.queue = append(j.queue, all...)
	if j.leading {
		w.done = make(chan turn, 1)
		j.mu.Unlock()
		t := <-w.done
		if !t.lead {
			return t.err
		}
		j.mu.Lock()
	}
	j.leading = true
	j.mu.Unlock()
	runtime.Gosched()
	j.mu.Lock()
	for w.left > 0 {
		writeGroupLocked(j, w)
	}
	if len(j.queue) > 0 {
		j.queue[0].waiter.done <- turn{lead: true}
	} else {
		j.leading = false
	}
	err := w.err
	j.mu.Unlock()
	return err
}

// writeGroupLocked writes and syncs one record. It wakes the callers, except the leader, that have
// no more requests to wait for.
func writeGroupLocked(j *journal, leader *waiter) {
	group := j.groupLocked()
	err := j.putLocked(group)
	for _, r := range group {
		w := r.waiter
		w.left--
		if w.err == nil {
			w.err = err
		}
		if w.left == 0 && w != leader {
			w.done <- turn{err: w.err}
		}
	}
}

func (j *journal) refusalLocked() error {
	if j.failed == nil && j.closed {
		return errClosed
	}
	return j.failed
}

// groupLocked takes as many requests from the queue as one record holds.
func (j *journal) groupLocked() []*request {
	n, size := 0, 0
	for _, r := range j.queue {
		size += r.size()
		if n > 0 && int64(size) > min(maxRecord, j.o.FileBytes/recordShare) {
			break
		}
		n++
	}
	group := j.queue[:n:n]
	j.queue = j.queue[n:]
	return group
}

// putLocked writes and syncs a record for a group. It unlocks meanwhile. No other goroutine writes,
// since the caller leads.
func (j *journal) putLocked(group []*request) error {
	if j.failed != nil {
		return j.failed
	}
	rotate := false
	p := j.encodeLocked(group, &rotate)
	if j.number > 0 && (rotate || j.tail+int64(len(p)) > j.o.FileBytes) {
		if err := j.rotateLocked(); err != nil {
			return err
		}
		p = j.encodeLocked(group, &rotate) // with names of the new generation
	}
	if len(p) == recordHeader {
		return nil // the only request was a rotation
	}
	p = sealRecord(p, j.generation, j.number+1)
	j.record = p
	half, at, first := j.halves[j.active], j.tail, j.number == 0
	j.mu.Unlock()
	err := untilFiles(func() (err error) {
		if first {
			_, err = half.WriteAt(head{generation: j.generation, before: j.before}.encode(), 0)
		}
		if err == nil {
			_, err = half.WriteAt(p, at)
		}
		if err == nil {
			err = vfs.SyncAside(half)
		}
		return err
	})
	j.mu.Lock()
	if err != nil {
		return j.failLocked(err)
	}
	j.number++
	j.tail += int64(len(p))
	if first {
		j.watchLocked()
	}
	for _, r := range group {
		j.appliedLocked(r)
	}
	return nil
}

// encodeLocked returns a record for a group, with room for its header.
func (j *journal) encodeLocked(group []*request, rotate *bool) []byte {
	p := append(j.record[:0], make([]byte, recordHeader)...)
	for _, r := range group {
		if r.file == nil {
			*rotate = true
			continue
		}
		number := r.file.numberLocked(j)
		if f := r.file; f.named != j.generation || j.number-f.namedIn >= nameAgain {
			p = appendName(p, number, j.relative(f.path))
			f.named, f.namedIn = j.generation, j.number
		}
		switch {
		case r.entries != nil:
			p = append(p, *r.entries...)
		case r.kept != nil:
			p = append(appendWriteHead(p, number, r.at, len(*r.kept)), *r.kept...)
		default:
			p = appendVoid(p, number)
		}
	}
	return p
}

func (j *journal) relative(path string) string {
	rel, err := filepath.Rel(j.o.Root, path)
	if err != nil {
		return path
	}
	return rel
}

// appliedLocked notes a request that became durable.
func (j *journal) appliedLocked(r *request) {
	f := r.file
	switch {
	case f == nil:
	case r.entries == nil && r.kept == nil:
		for i := range j.lives {
			delete(j.lives[i], f)
		}
		f.live.Store(0)
	default:
		if bit := uint32(1) << j.active; f.live.Load()&bit == 0 {
			j.lives[j.active][f] = struct{}{}
			f.live.Store(f.live.Load() | bit)
		}
	}
}

// watchLocked starts the timer that settles the active half when it is old.
func (j *journal) watchLocked() {
	if j.timer != nil {
		j.timer.Stop()
	}
	j.timer = time.AfterFunc(j.o.Age, func() {
		// An error is one of the journal, which the next sync returns.
		_ = j.submit(&request{})
	})
}

// rotateLocked continues with the other half, and starts to settle this one. It unlocks while it
// waits for the other half.
func (j *journal) rotateLocked() error {
	for j.settling != nil {
		settling := j.settling
		j.mu.Unlock()
		<-settling
		j.mu.Lock()
	}
	if j.failed != nil {
		return j.failed
	}
	old := j.active
	sealed := head{generation: j.generation, before: j.before, settled: true}
	done := make(chan struct{})
	j.settling = done
	j.beginLocked(1 - old)
	j.tasks.Go(func() {
		defer close(done)
		j.flushHalf(old, sealed)
	})
	return nil
}

// fail makes the journal refuse everything from now on, and returns the error.
func (j *journal) fail(err error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failLocked(err)
}

func (j *journal) failLocked(err error) error {
	if j.failed == nil {
		j.failed = fmt.Errorf("redo journal failed; restart the node to replay it: %w", err)
		if j.o.Failed != nil {
			go j.o.Failed(j.failed)
		}
	}
	return j.failed
}

// close settles everything and closes the files.
func (j *journal) close() error {
	err := j.submit(&request{}) // a rotation, which settles the active half
	j.mu.Lock()
	j.closed = true
	if j.timer != nil {
		j.timer.Stop()
	}
	j.mu.Unlock()
	j.tasks.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failed != nil {
		err = j.failed
	}
	for _, h := range j.halves {
		if h != nil {
			err = errors.Join(err, h.Close())
		}
	}
	j.halves = [2]vfs.File{}
	if j.volume.Volume != nil {
		err = errors.Join(err, j.volume.Close())
	}
	return err
}
