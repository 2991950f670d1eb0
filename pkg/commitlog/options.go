package commitlog

import (
	"fmt"
	"time"

	"github.com/brokerd/brokerd/pkg/fate"
)

// Defaults of Options.
const (
	DefaultSegmentBytes = 128 << 20
	DefaultIndexBytes   = 64 << 10
	DefaultTailBytes    = 1 << 20
	DefaultFillBytes    = 256 << 10

	maxSegmentBytes = 1 << 31
)

// Options tune a log. The zero value is good.
type Options struct {
	// SegmentBytes is where a segment ends and the next begins: the unit of
	// retention. A batch that is larger gets a segment of its own.
	SegmentBytes int64
	// IndexBytes is the distance between two entries of the sparse index. A
	// smaller one costs memory and saves reading at a seek.
	IndexBytes int64
	// TailBytes is how much of what was appended last is kept in memory, so that
	// those who read close to the end never touch the disk. Negative: nothing.
	TailBytes int
	// Tails bounds the tails of all logs that share it together. nil: nothing does.
	Tails *Tails
	// FillBytes is how far ahead of the end blocks are written with zeros, off
	// the append path, so that a sync need not allocate. Negative: not at all,
	// which suits a file system in memory.
	FillBytes int64
	// Alternating says that the owner syncs each append before the next one. Then
	// an intact batch proves the one before it, and a damaged batch with an intact
	// one behind it is corruption wherever it lies.
	Alternating bool
	// CommittedMayBeLost says that committed records need not have been durable
	// here: the machine lost power, and the owner does not sync each batch before
	// it acknowledges it, or was still catching up. Then a committed end, in a batch or in the note
	// of it, does not prove that a missing range was on disk.
	CommittedMayBeLost bool
	// OnDisk says that all that the directory holds is on disk, as the owner has seen to: what Open finds
	// whole it need not sync.
	OnDisk bool
	// Names are those in the directory, where the owner has just read them; nil: Open reads them.
	Names []string
	// BeforeRepair, if set, is called with what was found, before Open changes
	// anything on disk, unless the log is clean. An error ends Open.
	BeforeRepair func(Recovery) error
	// OnSync, if set, is told how long each sync of data took. It is called on the
	// goroutine that synced.
	OnSync func(time.Duration)
	// OnAppend, if set, is told how long writing a batch took, without the sync, of
	// one batch in appendSample.
	OnAppend func(time.Duration)
	// Buffers lends read buffers. Logs that share it share memory; nil: one of the
	// log's own.
	Buffers *Buffers
	// Cache keeps what is read out of order, for the readers of all logs that share
	// it. nil: nothing is kept.
	Cache *Cache
}

func (o Options) withDefaults() (Options, error) {
	if o.SegmentBytes == 0 {
		o.SegmentBytes = DefaultSegmentBytes
	}
	if o.IndexBytes == 0 {
		o.IndexBytes = DefaultIndexBytes
	}
	if o.TailBytes == 0 {
		o.TailBytes = DefaultTailBytes
	}
	if o.FillBytes == 0 {
		o.FillBytes = DefaultFillBytes
	}
	if o.Buffers == nil {
		o.Buffers = NewBuffers()
	}
	if o.SegmentBytes < 0 || o.SegmentBytes > maxSegmentBytes || o.IndexBytes < 0 {
		return o, fate.Mark(fmt.Errorf("invalid log options: segment size %d bytes, index interval %d bytes", o.SegmentBytes, o.IndexBytes), fate.Refused)
	}
	return o, nil
}
