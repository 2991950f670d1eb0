package commitlog

import "github.com/brokerd/brokerd/pkg/vfs"

// A sync of blocks that were written before allocates nothing, and takes about half as long as one
// of new blocks. While small appends are synced one by one, a goroutine therefore writes zeros
// ahead of them. It starts after a sync and ends on its own; an idle log has none. If much is
// appended between syncs the allocation does not matter, and writing everything twice would: with
// fills for syncs of up to 32 KiB, batches of a hundred small messages were no faster.
//
// With it an append of 2 KiB and its sync take as much time and CPU as a bare pwrite and fdatasync
// on blocks written before; without it 1.6 times as much. A sync that meets a fill takes about
// twice as long: one in 128 of that size. These variants were tried side by side and dropped,
// because none was better in the median, the last percent and the last tenth of a percent together:
// pwritev2 with RWF_DSYNC instead of the sync, smaller pieces, pieces that sync themselves, and
// larger fills, which make the slow syncs fewer and slower.
const (
	fillPiece   = 64 << 10
	maxFillSync = 8 << 10  // syncs of more bytes do not start a fill
	minFillSize = 64 << 10 // nor do smaller segments
)

// fillAhead starts a fill of the blocks after the end if that is worthwhile after a sync of the
// given bytes.
func (o *output) fillAhead(l *Log, covered int64) {
	if o == nil || covered == 0 || covered > maxFillSync || vfs.Deferred(o.file) {
		return
	}
	l.wmu.Lock()
	defer l.wmu.Unlock()
	size := o.seg.size.Load()
	limit := min(o.filled+l.opts.FillBytes, segmentBytes(l))
	if l.out != o || o.filling != nil || o.noFill || size < minFillSize || limit <= o.filled || o.filled-size > l.opts.FillBytes/2 {
		return
	}
	done := make(chan struct{})
	o.filling, o.fillLimit = done, limit
	from := o.filled
	go func() {
		defer close(done)
		o.fill(l, from)
	}()
}

// fill writes zeros from pos, the previous o.filled, to o.fillLimit: no append writes there before
// it has ended.
func (o *output) fill(l *Log, pos int64) {
	zeros := make([]byte, fillPiece)
	var err error
	for pos < o.fillLimit && err == nil {
		var n int
		n, err = vfs.FillAt(o.file, zeros[:min(fillPiece, o.fillLimit-pos)], pos)
		pos += int64(n)
	}
	l.wmu.Lock()
	defer l.wmu.Unlock()
	o.filling = nil
	o.filled = pos
	o.allocated = max(o.allocated, pos)
	if err == nil {
		return
	}
	o.noFill = true
	if !vfs.LacksRoom(err) {
		_ = l.fail(err)
	}
}
