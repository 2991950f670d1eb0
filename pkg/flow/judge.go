package flow

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Criteria by which the health reports channels.
const (
	// StallAfter is how long messages must have waited, without one being finished,
	// for a channel to count as stalled.
	StallAfter = 10 * time.Minute
	// GrowDepth is the minimum depth of a channel that counts as growing. It must have
	// grown for Long, by at least the fraction 1/growShare of its depth, and still grow.
	GrowDepth = 10_000
	growShare = 0.1
)

// Grows reports whether a channel of the given depth grows at rates that an operator should look
// at: more messages arrived than left over both windows, by a significant amount.
func (r Rates) Grows(depth int64) bool {
	grown := (r.InLong - r.OutLong) * Long.Seconds()
	return depth >= GrowDepth && r.In > r.Out && grown >= growShare*float64(depth)
}

// Suspect is a channel that may be stalled or growing, by the partitions that
// were measured.
type Suspect struct {
	Name    string        `json:"name"` // TOPIC/CHANNEL
	Depth   int64         `json:"depth"`
	Stalled time.Duration `json:"stalled"` // the longest of its partitions; 0: none is stalled
	Rates   Rates         `json:"rates"`
}

// Suspicious reports whether a channel with waiting messages may be stalled, or was
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
