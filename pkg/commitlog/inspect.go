package commitlog

import (
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Extent is how far a log on disk reaches.
type Extent struct {
	Start, End   seq.Offset
	CommittedEnd seq.Offset // as recorded on disk: it may have been higher
	Damaged      []Damage   // in the part that was read; Verify reads everything
}

// Inspect returns the extent of the log in a directory without opening or changing it. It
// trusts indexes, so it reads no more than Open. A missing directory is an empty log.
func Inspect(fsys vfs.FS, dir string) (Extent, error) {
	a := &analysis{fs: fsys, dir: dir, indexBytes: defaultIndexBytes}
	if err := a.run(); err != nil {
		return Extent{}, err
	}
	return Extent{
		Start: a.start, End: a.end, CommittedEnd: a.committedEnd(),
		Damaged: a.report().Damaged,
	}, nil
}
