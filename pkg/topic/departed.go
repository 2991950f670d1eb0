package topic

import (
	"sync/atomic"
	"time"
)

// keepDeparted is how many departed consumers are remembered by name.
const keepDeparted = 64

// departed remembers the consumers that left last, to name the last consumer of a message. The zero
// value is empty. It is not safe for concurrent use.
type departed struct {
	ids   []uint64
	names []string
	last  time.Time
}

// Add records a consumer that left now.
func (d *departed) Add(id uint64, name string, now time.Time) {
	d.last = now
	if len(d.ids) == keepDeparted {
		d.ids, d.names = d.ids[1:], d.names[1:]
	}
	d.ids, d.names = append(d.ids, id), append(d.names, name)
}

// Name returns the name of a consumer; "" if it is no longer known.
func (d *departed) Name(id uint64) string {
	for i, was := range d.ids {
		if was == id {
			return d.names[i]
		}
	}
	return ""
}

// Last returns the name of the consumer that left last, and when; the zero time if none did.
func (d *departed) Last() (name string, at time.Time) {
	if len(d.names) == 0 {
		return "", time.Time{}
	}
	return d.names[len(d.names)-1], d.last
}

// failed counts the outcomes of exhausted messages. Its methods are safe for concurrent use.
type failed struct{ deadLettered, dropped atomic.Uint64 }

// Count counts a message that was moved to another topic, or only finished.
func (f *failed) Count(deadLettered bool) {
	if deadLettered {
		f.deadLettered.Add(1)
	} else {
		f.dropped.Add(1)
	}
}

// DeadLettered returns how many were moved to another topic.
func (f *failed) DeadLettered() uint64 { return f.deadLettered.Load() }

// Dropped returns how many were only finished.
func (f *failed) Dropped() uint64 { return f.dropped.Load() }
