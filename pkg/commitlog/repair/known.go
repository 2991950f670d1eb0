package repair

import (
	"cmp"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Known is the set of damaged ranges of a node's logs, each listed once, however often it is met.
// Its methods are safe for concurrent use.
type Known struct {
	log  *slog.Logger // not nil
	torn atomic.Int64 // bytes truncated from torn tails

	mu    sync.Mutex // guards what follows
	found map[damagedRange]commitlog.Damage
	total int // ever found
}

type damagedRange struct {
	path string // of the segment
	from seq.Offset
}

// NewKnown returns an empty Known.
func NewKnown(log *slog.Logger) *Known { return &Known{log: log} }

// TornBytes returns how many bytes were truncated from torn tails.
func (d *Known) TornBytes() int64 { return d.torn.Load() }

// add adds a range and reports whether it is new.
func (d *Known) add(found commitlog.Damage) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := damagedRange{found.Path, found.From}
	if was, known := d.found[r]; known {
		if found.Next > was.Next {
			d.found[r] = found
		}
		return false
	}
	if d.found == nil {
		d.found = map[damagedRange]commitlog.Damage{}
	}
	d.found[r] = found
	d.total++
	return true
}

// In returns the ranges of the log in a directory, by offset.
func (d *Known) In(dir string) []commitlog.Damage {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []commitlog.Damage
	for r, found := range d.found {
		if filepath.Dir(r.path) == dir {
			all = append(all, found)
		}
	}
	slices.SortFunc(all, func(a, b commitlog.Damage) int { return cmp.Compare(a.From, b.From) })
	return all
}

// Forget drops the ranges below a deleted directory.
func (d *Known) Forget(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for r := range d.found {
		if r.path == dir || strings.HasPrefix(r.path, dir+string(filepath.Separator)) {
			delete(d.found, r)
		}
	}
}

// Drop drops a range of the log in a directory that is intact now.
func (d *Known) Drop(dir string, e Extent) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for r, found := range d.found {
		if filepath.Dir(r.path) == dir && e.Holds(extentOf(found)) {
			delete(d.found, r)
		}
	}
}

// Counts returns the current number of ranges, and the number ever found.
func (d *Known) Counts() (now, ever int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.found), d.total
}

// Report records a damaged range: when a log is opened, and whenever a consumer
// skips it. It logs each range once.
func (d *Known) Report(name string, partition int, err *commitlog.CorruptionError) {
	if d.add(commitlog.Damage{Path: err.Path, Position: err.Position, From: err.From, Next: err.Next}) {
		d.log.Error("log is corrupt on disk; affected messages are not delivered",
			"topic", name, "partition", partition, "from", err.From, "next", err.Next, "error", err)
	}
}

// ReportUnreadable records damage that a read on behalf of others than consumers met.
func (d *Known) ReportUnreadable(name string, partition int, err error) {
	if found, ok := errors.AsType[*commitlog.CorruptionError](err); ok {
		d.Report(name, partition, found)
	}
}

// ReportRecovery logs and records what was truncated or is damaged in a log
// that was opened.
func (d *Known) ReportRecovery(name string, partition int, r commitlog.Recovery) {
	log := d.log.With("topic", name, "partition", partition)
	for _, c := range r.Cut {
		d.torn.Add(c.Bytes)
		log.Warn("unreadable log end truncated: interrupted write or corruption; "+
			"replica counts as in sync only after reconciliation with its leader",
			"path", c.Path, "position", c.Position, "bytes", c.Bytes, "log_end", c.From)
	}
	for _, x := range r.Damaged {
		d.Report(name, partition, &commitlog.CorruptionError{Path: x.Path, Position: x.Position, From: x.From, Next: x.Next})
	}
}
