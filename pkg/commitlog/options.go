package commitlog

import (
	"cmp"
	"fmt"
	"time"

	"github.com/brokerd/brokerd/pkg/fate"
)

// Defaults of Options.
const (
	defaultSegmentBytes = 128 << 20
	defaultIndexBytes   = 64 << 10
	defaultTailBytes    = 1 << 20
	defaultFillBytes    = 256 << 10

	maxSegmentBytes = 1 << 31
)

// Options configure a log. The zero value is usable.
type Options struct {
	// SegmentBytes is the maximum size of a segment, the unit of retention. A larger batch gets
	// its own segment.
	SegmentBytes int64
	// IndexBytes is the distance between two entries of the sparse index. A smaller one costs
	// memory and saves reading at a seek.
	IndexBytes int64
	// TailBytes is how much of the latest appends is kept in memory, so that readers near the
	// end do not read the disk. Negative: nothing.
	TailBytes int
	// Tails bounds the tails of all logs that share it. nil: no bound.
	Tails *Tails
	// FillBytes is how far after the end blocks are filled with zeros, outside the append path, so
	// that a sync need not allocate. Negative: no fills, for a file system in memory.
	FillBytes int64
	// Alternating states that the owner syncs each append before the next one. Then an intact
	// batch proves that the previous one was durable, and a damaged batch followed by an intact
	// one is always corruption.
	Alternating bool
	// CommittedMayBeLost states that committed records may not have been durable here: the machine
	// lost power, and the owner does not sync each batch before it acknowledges it, or was still
	// catching up. Then a committed end, in a batch or in the commit note, does not prove that a
	// missing range was on disk.
	CommittedMayBeLost bool
	// OnDisk states that the owner has already synced the whole directory: Open need not sync
	// intact files.
	OnDisk bool
	// Names are the names in the directory, if the owner has just read them; nil: Open reads them.
	Names []string
	// BeforeRepair, if set, is called with the findings before Open changes anything on disk,
	// unless the log is clean. An error ends Open.
	BeforeRepair func(Recovery) error
	// OnSync, if set, receives the duration of each data sync, on the goroutine that synced.
	OnSync func(time.Duration)
	// OnAppend, if set, receives the duration of writing a batch, without the sync, for one
	// batch in appendSample.
	OnAppend func(time.Duration)
	// OnExcess, if set, is called when a segment begins while the log is larger than its bound: see Retention.Bound. It is
	// called under locks of the log and must not block.
	OnExcess func()
	// OnRefused, if set, receives the error of an append that the file system refused and that
	// changed nothing, except for a lack of descriptors. It is called under locks of the log and
	// must not block.
	OnRefused func(error)
	// Buffers lends read buffers. Logs that share it share memory; nil: the log has its own.
	Buffers *Buffers
	// Cache holds data read out of order, for the readers of all logs that share it. nil: no cache.
	Cache *Cache
}

func (o Options) withDefaults() (Options, error) {
	o.SegmentBytes = cmp.Or(o.SegmentBytes, defaultSegmentBytes)
	o.IndexBytes = cmp.Or(o.IndexBytes, defaultIndexBytes)
	o.TailBytes = cmp.Or(o.TailBytes, defaultTailBytes)
	o.FillBytes = cmp.Or(o.FillBytes, defaultFillBytes)
	if o.Buffers == nil {
		o.Buffers = new(Buffers)
	}
	if o.SegmentBytes < 0 || o.SegmentBytes > maxSegmentBytes || o.IndexBytes < 0 {
		return o, fate.Mark(fmt.Errorf("invalid log options: segment size %d bytes, index interval %d bytes", o.SegmentBytes, o.IndexBytes), fate.Refused)
	}
	return o, nil
}
