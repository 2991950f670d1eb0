package channel

import "sync/atomic"

// keepDeparted is how many consumers that have left are remembered by name.
const keepDeparted = 64

// Departed remembers the consumers that left last, to name the last consumer of a message. The
// zero value is empty. It is not safe for concurrent use.
type Departed struct {
	ids   []uint64
	names []string
}

// Add records a consumer that left.
func (d *Departed) Add(id uint64, name string) {
	if len(d.ids) == keepDeparted {
		d.ids, d.names = d.ids[1:], d.names[1:]
	}
	d.ids, d.names = append(d.ids, id), append(d.names, name)
}

// Name returns the name of a consumer; "": it is not known any more.
func (d *Departed) Name(id uint64) string {
	for i, was := range d.ids {
		if was == id {
			return d.names[i]
		}
	}
	return ""
}

// Failed counts what became of messages that used up their attempts. Its methods may be
// called by many goroutines.
type Failed struct{ deadLettered, dropped atomic.Uint64 }

// Count counts one that went to another topic, or was finished and nothing else.
func (f *Failed) Count(deadLettered bool) {
	if deadLettered {
		f.deadLettered.Add(1)
	} else {
		f.dropped.Add(1)
	}
}

// DeadLettered returns how many went to another topic.
func (f *Failed) DeadLettered() uint64 { return f.deadLettered.Load() }

// Dropped returns how many were finished and nothing else.
func (f *Failed) Dropped() uint64 { return f.dropped.Load() }
