package broker

import (
	"strings"
	"sync"

	"github.com/brokerd/brokerd/pkg/seq"
)

// damage is the damaged ranges of the logs that this node holds, each once,
// however often it is met.
type damage struct {
	mu    sync.Mutex // guards found
	found map[damagedRange]struct{}
}

type damagedRange struct {
	path string // of the segment
	from seq.Offset
}

// note adds a range and returns whether it is new.
func (d *damage) note(r damagedRange) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.found[r]; known {
		return false
	}
	if d.found == nil {
		d.found = map[damagedRange]struct{}{}
	}
	d.found[r] = struct{}{}
	return true
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

func (d *damage) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.found)
}
