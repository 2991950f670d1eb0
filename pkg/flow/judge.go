package flow

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// What health says of channels.
const (
	// StallAfter is how long messages wait while none is finished, until a channel is
	// said to be stalled.
	StallAfter = 10 * time.Minute
	// GrowDepth is how many messages a channel has at least that is said to grow. It has
	// grown for Long, by growShare of what it has at least, and still does.
	GrowDepth = 10_000
	growShare = 0.1
)

// Grows reports whether a channel of some depth grows, by its rates, so that someone should
// look at it: more came in than went out over both windows, and not just a little.
func (r Rates) Grows(depth int64) bool {
	grown := (r.InLong - r.OutLong) * Long.Seconds()
	return depth >= GrowDepth && r.In > r.Out && grown >= growShare*float64(depth)
}

// Suspect is a channel that may be stalled, or grow, as far as someone knows it.
type Suspect struct {
	Name    string        `json:"name"` // TOPIC/CHANNEL
	Depth   int64         `json:"depth"`
	Stalled time.Duration `json:"stalled"` // the longest of its partitions; 0: all move
	Rates   Rates         `json:"rates"`
}

// Suspicious reports whether a channel with messages that wait may be stalled, or was
// measured for long enough to know whether it grows.
func (m *Meter) Suspicious(now time.Time) bool {
	return m.Stalled(now) >= StallAfter || m.Observed(now) >= Long
}

// Suspect returns the measurements by which a channel on one partition is
// judged.
func (m *Meter) Suspect(now time.Time, name string, depth int64, t Totals) Suspect {
	s := Suspect{Name: name, Depth: depth, Rates: m.Rates(now, t)}
	if stalled := m.Stalled(now); stalled >= StallAfter {
		s.Stalled = stalled
	}
	return s
}

// Merge adds up the parts of each channel. The one with the most messages comes first.
func Merge(parts []Suspect) []Suspect {
	byName := map[string]Suspect{}
	for _, p := range parts {
		s := byName[p.Name]
		s.Name = p.Name
		s.Depth += p.Depth
		s.Stalled = max(s.Stalled, p.Stalled)
		s.Rates.Add(p.Rates)
		byName[p.Name] = s
	}
	return slices.SortedFunc(maps.Values(byName), func(a, b Suspect) int {
		return cmp.Or(cmp.Compare(b.Depth, a.Depth), cmp.Compare(a.Name, b.Name))
	})
}
