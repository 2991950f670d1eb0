package commitlog

import (
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Extent is how far a log on disk reaches, and what is missing.
type Extent struct {
	Start, End     seq.Offset
	CommittedEnd   seq.Offset // as recorded on disk: it may have been higher
	Segments       int
	Epochs         []EpochStart
	Damaged        []Damage // in the part that was read
	Torn           []Cut    // what Open would truncate
	CheckpointLost bool     // it is damaged
}

// OK reports whether everything that was ever durable can be read, as far as it was read.
func (e Extent) OK() bool { return len(e.Damaged) == 0 && !e.CheckpointLost }

// Inspect returns the extent of the log in a directory without opening or changing it. A missing
// directory is an empty log. Without visit it trusts indexes, so it reads no more than Open. With
// visit it reads and verifies every byte, and calls visit with each intact batch, in order; a batch
// is valid only during the call, and an error of visit ends the reading and is returned. Any other
// error is a read error; damage is in the extent.
func Inspect(fsys vfs.FS, dir string, visit func(Batch) error) (Extent, error) {
	a := &analysis{fs: fsys, dir: dir, indexBytes: defaultIndexBytes, scanAll: visit != nil, visit: visit}
	if err := a.run(); err != nil {
		return Extent{}, err
	}
	r := a.report()
	return Extent{
		Start: a.start, End: a.end, CommittedEnd: a.committedEnd(), Segments: len(a.segments), Epochs: a.epochs(),
		Damaged: r.Damaged, Torn: r.Cut, CheckpointLost: r.CheckpointLost,
	}, nil
}
