package host

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/seq"
)

// damage is the damaged ranges of the logs that this node holds, each once,
// however often it is met.
type damage struct {
	mu    sync.Mutex // guards what follows
	found map[damagedRange]commitlog.Damage
	total int // ever found
}

type damagedRange struct {
	path string // of the segment
	from seq.Offset
}

// note adds a range and returns whether it is new.
func (d *damage) note(found commitlog.Damage) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := damagedRange{found.Path, found.From}
	if _, known := d.found[r]; known {
		return false
	}
	if d.found == nil {
		d.found = map[damagedRange]commitlog.Damage{}
	}
	d.found[r] = found
	d.total++
	return true
}

// in returns the ranges of the log in a directory, by offset.
func (d *damage) in(dir string) []commitlog.Damage {
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

// forget drops the ranges below a directory that is gone.
func (d *damage) forget(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for r := range d.found {
		if strings.HasPrefix(r.path, dir) {
			delete(d.found, r)
		}
	}
}

// counts returns how many ranges there are, and how many were ever found.
func (d *damage) counts() (now, ever int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.found), d.total
}
