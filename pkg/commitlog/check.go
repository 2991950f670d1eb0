package commitlog

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"sort"
	"syscall"

	"github.com/brokerd/brokerd/pkg/commitlog/segmenthead"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// checkChunk is how many bytes a Checker reads at once.
const checkChunk = 256 << 10

// Checker reads a log from disk piece by piece to find damaged batches and missing or truncated
// files. Unlike a Reader it reads nothing from memory and, where possible, nothing from the
// page cache. It rewrites damaged indexes and checkpoints. The log may be appended to,
// truncated and shortened meanwhile. A Checker is for one goroutine.
type Checker struct {
	log  *Log
	next seq.Offset // where the check continues when no segment is open

	seg         *segment // nil if none is open
	scan        scanner
	at          int64      // in the segment's file
	expect      seq.Offset // the first offset of the batch there
	truncations uint64     // of the log when the segment was opened
}

// NewChecker returns a checker that starts with the segment of an offset, or the first one
// after it. It holds no resources yet.
func NewChecker(l *Log, from seq.Offset) *Checker { return &Checker{log: l, next: from} }

// Next returns the offset at which a new Checker continues this one's check.
func (c *Checker) Next() seq.Offset {
	if c.seg != nil {
		return c.seg.base
	}
	return c.next
}

// Close closes the file.
func (c *Checker) Close() {
	if c.seg != nil {
		c.scan.close()
		c.seg, c.scan = nil, scanner{}
	}
}

// Step checks whole batches of about max bytes in total and returns the number of bytes. visit,
// if not nil, is called with each intact batch, whose bytes are valid during the call; its
// error ends the step and is returned. done reports that the end of the log was reached. An
// error of type *CorruptionError reports damage, and the next step continues after it; any
// other error leaves it open whether there is damage.
func (c *Checker) Step(max int, visit func(Batch) error) (n int, done bool, err error) {
	for n < max || c.seg != nil && c.at >= c.seg.size.Load() {
		if c.seg == nil {
			if done, err := c.enter(); done || err != nil {
				return n, done, err
			}
		}
		if c.at >= c.seg.size.Load() {
			if done, err := c.leave(); done || err != nil {
				return n, done, err
			}
			continue
		}
		b, err := c.batch()
		if err != nil {
			skipped, err := c.trouble(err)
			if n += skipped; err != nil {
				return n, false, err
			}
			continue
		}
		c.at += int64(b.Size())
		c.expect = b.End()
		n += b.Size()
		if visit != nil {
			if err := visit(b); err != nil {
				return n, false, err
			}
		}
	}
	return n, false, nil
}

// batch reads the next batch of the open segment.
func (c *Checker) batch() (Batch, error) {
	size, err := c.scan.file.Size()
	if err != nil {
		return Batch{}, err
	}
	c.scan.size = min(size, c.seg.size.Load())
	b, err := c.scan.batch(c.at)
	if err == nil && b.First() != c.expect {
		err = ErrInvalidBatch
	}
	b.position = c.seg.position(c.at)
	return b, err
}

// enter opens the next segment and checks its header. done: there is none.
func (c *Checker) enter() (done bool, err error) {
	l := c.log
	c.truncations = l.truncations.Load()
	view := l.view()
	i := sort.Search(len(view), func(i int) bool { return view[i].endOffset() > c.next })
	if i == len(view) {
		return true, nil
	}
	seg := view[i]
	file, err := l.fs.Open(seg.path)
	if err != nil {
		return false, c.unopened(seg, err)
	}
	c.seg, c.at, c.expect = seg, segmenthead.Bytes, seg.base
	c.scan = scanner{file: dropping{file}, chunk: checkChunk, size: segmenthead.Bytes}
	head, err := c.scan.window(0, segmenthead.Bytes)
	base, basePos := seg.base, seg.basePos
	if err == nil {
		base, basePos, err = segmenthead.Decode(head)
	}
	if err != nil || base != seg.base || basePos != seg.basePos {
		if ok, err := c.stands(seg); !ok || err != nil {
			c.Close()
			return false, err
		}
		return false, Damage{Path: seg.path, From: seg.base, Next: seg.base}.err()
	}
	return false, nil
}

// unopened decides what it means that a segment's file cannot be opened.
func (c *Checker) unopened(seg *segment, cause error) error {
	if !errors.Is(cause, fs.ErrNotExist) && !errors.Is(cause, syscall.EIO) {
		return cause
	}
	ok, err := c.stands(seg)
	if !ok || err != nil {
		return err // retention or a truncation has removed it
	}
	d := Damage{Path: seg.path, From: seg.base, Next: seg.endOffset()}
	seg.addDamage(d)
	c.next = d.Next
	return d.err()
}

// stands reports whether a segment is still a part of the log as it was opened. The log is not
// truncated or closed meanwhile.
func (c *Checker) stands(seg *segment) (bool, error) {
	l := c.log
	l.serial.Lock()
	defer l.serial.Unlock()
	if closed(l) {
		return false, ErrClosed
	}
	return stands(l, seg, c.truncations), nil
}

// stands reports whether a segment is a part of an open log that has not been truncated since
// truncations were counted.
func stands(l *Log, seg *segment, truncations uint64) bool {
	return truncations == l.truncations.Load() && slices.Contains(l.view(), seg) && !closed(l)
}

func closed(l *Log) bool {
	l.wmu.Lock()
	defer l.wmu.Unlock()
	return l.closed
}

// trouble handles a batch that could not be read. It is read again if the log was truncated
// meanwhile; otherwise it is damage. It returns how many bytes are skipped.
func (c *Checker) trouble(cause error) (skipped int, err error) {
	c.scan.buf = nil
	ok, err := c.stands(c.seg)
	if err != nil {
		return 0, err
	}
	if !ok {
		c.next = c.seg.base
		c.Close()
		return 0, nil
	}
	if _, err := c.batch(); err == nil {
		return 0, nil // it was truncated during the read
	}
	d := Damage{Path: c.seg.path, Position: c.at, From: c.expect, Next: c.seg.endOffset()}
	behind := c.seg.size.Load()
	if errors.Is(cause, errNoBatch) || errors.Is(cause, ErrInvalidBatch) {
		if d, behind, err = diagnose(c.seg, &c.scan, c.at, c.expect); err != nil {
			return 0, err
		}
	} else if !errors.Is(cause, syscall.EIO) {
		return 0, cause
	}
	c.seg.addDamage(d)
	skipped = int(behind - c.at)
	c.at, c.expect = behind, d.Next
	return skipped, d.err()
}

// leave ends the check of a segment. done: it is the last one.
func (c *Checker) leave() (done bool, err error) {
	seg := c.seg
	view := c.log.view()
	if len(view) > 0 && view[len(view)-1] == seg {
		return true, c.mendCheckpoint()
	}
	c.next = max(c.expect, seg.endOffset())
	c.Close()
	return false, c.mendIndex(seg)
}

// mendIndex rewrites the index of a complete segment if it cannot be read.
func (c *Checker) mendIndex(seg *segment) error {
	l := c.log
	if _, err := seg.loadIndex(l.fs); err == nil {
		return nil
	}
	l.serial.Lock()
	defer l.serial.Unlock()
	l.wmu.Lock()
	open := l.closed || slices.ContainsFunc(append(slices.Clone(l.rolled), l.out), func(o *output) bool { return o != nil && o.seg == seg })
	l.wmu.Unlock()
	if open || !slices.Contains(l.view(), seg) {
		return nil // it has no index yet, or no longer needs one
	}
	found, err := seg.rescan(l.fs, l.opts.IndexBytes)
	if err != nil || found.end != seg.endOffset() || found.size != seg.size.Load() {
		return err // it is damaged at its end, and must be read at each start
	}
	seg.mu.Lock()
	found.damage = seg.damage
	seg.mu.Unlock()
	return vfs.WriteFileSynced(l.fs, seg.indexPath(), found.encode())
}

// mendCheckpoint rewrites the checkpoint if it cannot be read.
func (c *Checker) mendCheckpoint() error {
	l := c.log
	l.serial.Lock()
	defer l.serial.Unlock()
	l.wmu.Lock()
	open := l.madeDir && !l.closed
	l.wmu.Unlock()
	if !open || l.noted == (checkpoint{}) {
		return nil
	}
	p, err := vfs.ReadFile(l.fs, filepath.Join(l.dir, checkpointName), 2*checkpointBytes)
	if err == nil {
		_, err = decodeCheckpoint(p)
	}
	if err == nil {
		return nil
	}
	return noteOf(l, l.DurableEnd(), l.Start()).write(l)
}

// dropping is a file whose reads bypass the page cache, if the system permits it, and leave nothing
// in it.
type dropping struct{ vfs.File }

// ReadAt implements io.ReaderAt.
func (f dropping) ReadAt(p []byte, off int64) (int, error) {
	vfs.DropCache(f.File, off, int64(len(p)))
	n, err := f.File.ReadAt(p, off)
	vfs.DropCache(f.File, off, int64(len(p)))
	return n, err
}
