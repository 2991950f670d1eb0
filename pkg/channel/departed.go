package channel

import "sync/atomic"

// keepDeparted is how many departed consumers are remembered by name.
const keepDeparted = 64

// Departed remembers the consumers that left last, to name the last consumer of a message. The zero
// value is empty. It is not safe for concurrent use.
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

// Name returns the name of a consumer; "" if it is no longer known.
func (d *Departed) Name(id uint64) string {
	for i, was := range d.ids {
		if was == id {
			return d.names[i]
		}
	}
	return ""
}

// Failed counts the outcomes of exhausted messages. Its methods are safe for concurrent use.
type Failed struct{ deadLettered, dropped atomic.Uint64 }

// Count counts a message that was moved to another topic, or only finished.
func (f *Failed) Count(deadLettered bool) {
	if deadLettered {
		f.deadLettered.Add(1)
	} else {
		f.dropped.Add(1)
	}
}

// DeadLettered returns how many were moved to another topic.
func (f *Failed) DeadLettered() uint64 { return f.deadLettered.Load() }

// Dropped returns how many were only finished.
func (f *Failed) Dropped() uint64 { return f.dropped.Load() }
