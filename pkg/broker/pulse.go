package broker

import (
	"sync/atomic"
	"time"
)

// pulse says whether this process has been running all the time. A relay needs
// to know: what its leader sent before a pause lies in a socket, and looks like
// news to a process that goes on.
type pulse struct {
	span      time.Duration // a longer one without a beat is a gap
	base      time.Time
	suspended *suspension  // the machine; nil: never
	woke      atomic.Int64 // when it was found last that it had been, since base, in ns
	last      atomic.Int64 // beat, since base, in ns
	gaps      atomic.Uint64
}

// pulseBeats is how many beats there are in two spans.
const pulseBeats = 5

func newPulse(span time.Duration, s *suspension) *pulse {
	return &pulse{span: span, base: time.Now(), suspended: s}
}

// look counts a suspension of the machine as a gap.
func (p *pulse) look(now time.Time) {
	woke := p.suspended.look(now)
	if woke.IsZero() {
		return
	}
	at := max(1, int64(woke.Sub(p.base)))
	if before := p.woke.Load(); before < at && p.woke.CompareAndSwap(before, at) {
		p.gaps.Add(1)
	}
}

// beat notes that the process runs at now. It is called again and again.
func (p *pulse) beat(now time.Time) {
	at := int64(now.Sub(p.base))
	for {
		last := p.last.Load()
		if at <= last {
			return
		}
		if at-last > int64(p.span) {
			p.gaps.Add(1) // before it can look as if there had been none
		}
		if p.last.CompareAndSwap(last, at) {
			return
		}
	}
}

// stretch is a time for which a process has been running.
type stretch struct {
	pulse *pulse
	gaps  uint64 // when it began
}

func (p *pulse) begin() stretch {
	p.look(time.Now())
	return stretch{p, p.gaps.Load()}
}

// steady says whether there was no gap up to now. It knows of a pause as soon
// as that is over: whoever asks before the next beat finds the gap.
func (s stretch) steady(now time.Time) bool {
	p := s.pulse
	p.look(now)
	if int64(now.Sub(p.base))-p.last.Load() > int64(p.span) {
		p.beat(now)
	}
	return p.gaps.Load() == s.gaps
}
