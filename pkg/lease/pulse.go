package lease

import (
	"sync/atomic"
	"time"
)

// Pulse reports whether this process has been running without a pause. A relay
// needs to know: messages that its leader sent before a pause wait in a socket,
// and look new to a process that continues.
type Pulse struct {
	span      time.Duration // a longer time without a beat is a gap
	base      time.Time
	suspended *Suspension  // the machine; nil: never
	woke      atomic.Int64 // when a suspension was last detected, since base, in ns
	last      atomic.Int64 // beat, since base, in ns
	gaps      atomic.Uint64
}

// pulseBeats is how many beats there are in two spans.
const pulseBeats = 5

// NewPulse returns the pulse of a process that calls Beat once per Interval.
func NewPulse(span time.Duration, s *Suspension) *Pulse {
	return &Pulse{span: span, base: time.Now(), suspended: s}
}

// Interval is the period at which Beat must be called.
func (p *Pulse) Interval() time.Duration { return 2 * p.span / pulseBeats }

// look counts a suspension of the machine as a gap.
func (p *Pulse) look(now time.Time) {
	woke := p.suspended.Last(now)
	if woke.IsZero() {
		return
	}
	at := max(1, int64(woke.Sub(p.base)))
	if before := p.woke.Load(); before < at && p.woke.CompareAndSwap(before, at) {
		p.gaps.Add(1)
	}
}

// Beat records that the process runs at now. It is called once per Interval.
func (p *Pulse) Beat(now time.Time) {
	at := int64(now.Sub(p.base))
	for {
		last := p.last.Load()
		if at <= last {
			return
		}
		if at-last > int64(p.span) {
			p.gaps.Add(1) // before a reader can miss the gap
		}
		if p.last.CompareAndSwap(last, at) {
			return
		}
	}
}

// Stretch is a period that has begun: Steady reports whether the process has
// run without a pause since.
type Stretch struct {
	pulse *Pulse
	gaps  uint64 // count at its beginning
}

// Begin returns the stretch that begins now.
func (p *Pulse) Begin() Stretch {
	p.look(time.Now())
	return Stretch{p, p.gaps.Load()}
}

// Steady reports whether there was no gap up to now. It knows of a pause as soon
// as that is over: a call before the next beat finds the gap.
func (s Stretch) Steady(now time.Time) bool {
	p := s.pulse
	p.look(now)
	if int64(now.Sub(p.base))-p.last.Load() > int64(p.span) {
		p.Beat(now)
	}
	return p.gaps.Load() == s.gaps
}
