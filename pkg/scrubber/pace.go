package scrubber

import "time"

const (
	// step is the number of bytes read at once.
	step = 1 << 20
	// maxRate is the maximum number of bytes read per second.
	maxRate = 64 << 20
	// share limits the part of the time spent reading to 1/share.
	share = 10
	// catchUp limits how much is caught up at a time to 1/catchUp of all bytes.
	catchUp = 8
	// maxWait is the maximum time between two decisions, unless the interval is shorter, because
	// the stored data changes.
	maxWait = time.Minute
)

// pace decides how fast the stored data is read: all bytes once per interval, but reading takes at
// most 1/share of the time, so a slow, busy disk is read less. Arrears are made up for, at most
// 1/catchUp of all data at a time. A zero pace with an interval is ready to use. It is not safe for
// concurrent use.
type pace struct {
	interval time.Duration // in which every byte is read once

	credit float64   // bytes that may be read now
	at     time.Time // when credit was computed
	rest   time.Time // no read before this time
}

// next returns how many of total stored bytes to read now, or how long to wait before the next
// call.
func (p *pace) next(now time.Time, total int64) (bytes int64, wait time.Duration) {
	rate := float64(total) / p.interval.Seconds()
	if !p.at.IsZero() {
		p.credit = min(p.credit+rate*now.Sub(p.at).Seconds(), float64(total)/catchUp+step)
	}
	p.at = now
	longest := min(maxWait, p.interval)
	if total <= 0 {
		return 0, longest
	}
	bytes = min(step, total)
	if rest := p.rest.Sub(now); rest > 0 {
		return 0, min(rest, longest)
	}
	if lacking := float64(bytes) - p.credit; lacking > 0 {
		return 0, min(time.Duration(min(lacking/rate, maxWait.Seconds())*float64(time.Second))+time.Millisecond, longest)
	}
	return bytes, 0
}

// read records that n bytes were read in a time that ended at now.
func (p *pace) read(bytes int64, took time.Duration, now time.Time) {
	p.credit -= float64(bytes)
	pause := max((share-1)*took, time.Duration(float64(bytes)/maxRate*float64(time.Second)))
	p.rest = now.Add(pause)
}
