package commitlog

import (
	"errors"
	"fmt"

	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Refusals of the log: nothing was changed.
var (
	// ErrFenced: a higher epoch is in the log or was requested.
	ErrFenced = fate.Refuse("fenced by a higher epoch")
	// ErrRevoked: another writer has replaced this one.
	ErrRevoked = fate.Refuse("revoked: another writer took over the log")
	// ErrClosed: the log is closed.
	ErrClosed = fate.Refuse("log is closed")
	// errEmptyBatch: a batch without records cannot be appended.
	errEmptyBatch = fate.Refuse("empty batch")
	// errBatchTooBig: a batch exceeds maxBatchBytes.
	errBatchTooBig = fate.Refuse("batch too large")
	// ErrNotContiguous: a batch does not begin where the log ends.
	ErrNotContiguous = fate.Refuse("batch does not start at the log end")
	// errStaleEpoch: a batch's epoch is below the log's last, or above the writer's.
	errStaleEpoch = fate.Refuse("stale epoch: batch is older than the log or newer than its writer")
	// ErrBelowCommitted: truncating would remove committed records. It must never happen; the
	// replica must stop.
	ErrBelowCommitted = fate.Refuse("cannot truncate below the committed end")
	// errInvalidOrigin: a log cannot begin there.
	errInvalidOrigin = fate.Refuse("offset or position out of range")
	// errNotBoundary: the log can be truncated only between batches.
	errNotBoundary = fate.Refuse("offset is not a batch boundary")
	// errBeyondCommitted: the offset is not committed yet.
	errBeyondCommitted = fate.Refuse("offset is beyond the committed end")
	// errBeyondEnd: the offset is not in the log yet.
	errBeyondEnd = fate.Refuse("offset is beyond the log end")
	// ErrInvalidBatch: the bytes are no intact batch.
	ErrInvalidBatch = fate.Refuse("invalid batch")

	// ErrFailed reports that a write or sync error has failed the log. The failing operation
	// itself is uncertain; later ones are marked Refused.
	ErrFailed = errors.New("a write or sync failed, so the log accepts no more until the node restarts")

	// errNoHeader is created once, because a search for batches in a damaged range returns it at
	// nearly every offset.
	errNoHeader = fmt.Errorf("%w: header missing", ErrInvalidBatch)
)

// BelowStartError is returned for a read below the start of the log.
type BelowStartError struct {
	Start seq.Offset // where the log starts
}

// Error implements error.
func (e *BelowStartError) Error() string {
	return fmt.Sprintf("offset is below the log start, %d", e.Start)
}

// Fate implements fate's marking.
func (e *BelowStartError) Fate() fate.Fate { return fate.Refused }

// CorruptionError reports a damaged range of the log on disk.
type CorruptionError struct {
	Path     string     // the segment file
	Position int64      // in the file, where the damage begins
	From     seq.Offset // the first lost offset
	Next     seq.Offset // where intact data resumes
}

// Error implements error.
func (e *CorruptionError) Error() string {
	if e.From == e.Next {
		return fmt.Sprintf("%s: corrupt at byte %d, no offsets lost", e.Path, e.Position)
	}
	return fmt.Sprintf("%s: corrupt at byte %d, offsets %d to %d unreadable", e.Path, e.Position, e.From, e.Next-1)
}

// Fate implements fate's marking.
func (e *CorruptionError) Fate() fate.Fate { return fate.Corrupt }
