package flow

import (
	"sync"
	"time"
)

// Windows over which rates are measured, and the period of measurements.
const (
	Short = time.Minute
	Long  = 15 * time.Minute
	// Every is the period at which Observe must be called.
	Every = 10 * time.Second
)

// Numbers of samples that cover a window, with one at its far edge and one to spare.
// Those of the long window are a minute apart.
const (
	shortSamples = int(Short/Every) + 2
	longSamples  = int(Long/longEvery) + 2
	longEvery    = time.Minute
)

// Totals are the counters of a channel at a moment. In and Out only grow.
type Totals struct {
	In      uint64 // messages that it received
	Out     uint64 // of those, finished
	Waiting bool   // some are ready, and could be delivered to a consumer
}

// Rates are messages a second, into a channel and out of it.
type Rates struct {
	In, Out         float64 // over the last minute
	InLong, OutLong float64 // over the last 15 minutes
}

// Add adds the rates of another part of the channel.
func (r *Rates) Add(o Rates) {
	r.In += o.In
	r.Out += o.Out
	r.InLong += o.InLong
	r.OutLong += o.OutLong
}

// heldAfter is the age of the oldest message from which on DrainsIn counts what is in flight.
const heldAfter = 10 * time.Second

// DrainsIn returns how long a channel takes until none of its depth messages waits, at the
// rates of the last minute: the outgoing rate minus the incoming rate. If none waits, but
// some are in flight and the oldest has been unfinished for more than 10 seconds, it is how
// long those in flight take at the outgoing rate. It returns false if the channel never
// drains: at least as much comes in as goes out, or nothing goes out.
func (r Rates) DrainsIn(depth, inFlight int64, oldest time.Duration) (time.Duration, bool) {
	net := r.Out - r.In
	if depth <= 0 {
		if inFlight <= 0 || oldest < heldAfter {
			return 0, true
		}
		depth, net = inFlight, r.Out
	}
	if net <= 0 {
		return 0, false
	}
	seconds := float64(depth) / net
	if seconds > maxDrain.Seconds() {
		return 0, false
	}
	return time.Duration(seconds * float64(time.Second)), true
}

// maxDrain is the longest time that DrainsIn returns: longer ones are noise of the
// measurement.
const maxDrain = 10 * 365 * 24 * time.Hour

// sample is a measurement.
type sample struct {
	at      time.Time
	in, out uint64
}

// Meter measures one channel on one partition. The zero value is ready for use. Its
// methods are safe for concurrent use.
type Meter struct {
	mu    sync.Mutex // guards what follows
	since sample     // the totals were the same from this measurement until last
	last  sample
	still time.Time // since when messages have been waiting and none was finished
	rings *rings    // nil: nothing has changed for Long
}

// rings are the samples of both windows, the oldest first.
type rings struct {
	short, long []sample
	changed     time.Time // when the totals were last seen to differ
}

// Observe records the totals. It is called every Every, and once when the channel begins.
func (m *Meter) Observe(now time.Time, t Totals) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := sample{now, t.In, t.Out}
	if m.last.at.IsZero() {
		m.since, m.last, m.still = s, s, now
		return
	}
	if t.Out != m.last.out || !t.Waiting {
		m.still = now
	}
	changed := t.In != m.last.in || t.Out != m.last.out
	if changed && m.rings == nil {
		m.rings = &rings{
			short: append(make([]sample, 0, shortSamples), m.since),
			long:  append(make([]sample, 0, longSamples), m.since),
		}
		m.rings.add(m.last)
	}
	m.last = s
	switch {
	case m.rings == nil:
	case changed:
		m.rings.changed = now
		m.rings.add(s)
	case now.Sub(m.rings.changed) > Long+longEvery:
		m.since, m.rings = sample{m.rings.changed, t.In, t.Out}, nil
	default:
		m.rings.add(s)
	}
}

func (r *rings) add(s sample) {
	if s.at.After(r.short[len(r.short)-1].at) {
		r.short = push(r.short, s)
	}
	if s.at.Sub(r.long[len(r.long)-1].at) >= longEvery {
		r.long = push(r.long, s)
	}
}

// push adds a sample to a slice, and drops the oldest if the slice is full.
func push(all []sample, s sample) []sample {
	if len(all) == cap(all) {
		copy(all, all[1:])
		all = all[:len(all)-1]
	}
	return append(all, s)
}

// Rates returns the rates at now, given the current totals.
func (m *Meter) Rates(now time.Time, t Totals) Rates {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := sample{now, t.In, t.Out}
	if m.last.at.IsZero() {
		return Rates{}
	}
	short, long := []sample{m.since, m.last}, []sample{m.since, m.last}
	if m.rings != nil {
		short, long = m.rings.short, m.rings.long
	}
	var r Rates
	r.In, r.Out = rate(short, s, Short)
	r.InLong, r.OutLong = rate(long, s, Long)
	return r
}

// rate compares totals with those of a window ago. If the samples begin later, the
// window is as long as they reach, but at least a second.
func rate(all []sample, now sample, window time.Duration) (in, out float64) {
	edge := now.at.Add(-window)
	wasIn, wasOut, at := float64(all[0].in), float64(all[0].out), all[0].at
	for i, s := range all {
		next := now
		if i+1 < len(all) {
			next = all[i+1]
		}
		if s.at.After(edge) || !next.at.After(edge) {
			continue
		}
		part := float64(edge.Sub(s.at)) / float64(next.at.Sub(s.at))
		wasIn = float64(s.in) + part*(float64(next.in)-float64(s.in))
		wasOut = float64(s.out) + part*(float64(next.out)-float64(s.out))
		at = edge
		break
	}
	took := max(now.at.Sub(at), time.Second).Seconds()
	return max(0, float64(now.in)-wasIn) / took, max(0, float64(now.out)-wasOut) / took
}

// Stalled returns for how long messages have been waiting without one being finished,
// according to the measurements.
func (m *Meter) Stalled(now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last.at.IsZero() {
		return 0
	}
	return max(0, now.Sub(m.still))
}

// Observed returns for how long the channel has been measured, at most Long.
func (m *Meter) Observed(now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	first := m.since.at
	if m.rings != nil {
		first = m.rings.long[0].at
	}
	if first.IsZero() {
		return 0
	}
	return min(Long, max(0, now.Sub(first)))
}
