package scrubber

import (
	"testing"
	"time"
)

// runPace lets a pace read for some time from a disk on which a step takes took. It returns the bytes
// read and the number of decisions.
func runPace(p *pace, start time.Time, total int64, during, took time.Duration) (read int64, asked int) {
	for now := start; now.Sub(start) < during; asked++ {
		n, wait := p.next(now, total)
		if n == 0 {
			now = now.Add(wait)
			continue
		}
		now = now.Add(took)
		p.read(n, took, now)
		read += n
	}
	return read, asked
}

func TestPaceReadsAllOnceInAnInterval(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	const week = 168 * time.Hour
	for name, tt := range map[string]struct {
		total    int64
		interval time.Duration
		took     time.Duration
	}{
		"a terabyte in a week":    {1 << 40, week, 5 * time.Millisecond},
		"ten gigabytes in a week": {10 << 30, week, 5 * time.Millisecond},
		"a few bytes in a week":   {4 << 10, week, time.Millisecond},
		"a gigabyte in an hour":   {1 << 30, time.Hour, 5 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			p := &pace{interval: tt.interval}
			read, asked := runPace(p, start, tt.total, tt.interval, tt.took)
			if diff := read - tt.total; diff < -tt.total/50-step || diff > tt.total/100 {
				t.Errorf("read %d bytes of %d", read, tt.total)
			}
			if most := int(3*read/min(step, tt.total)) + 2*int(tt.interval/maxWait); asked > most {
				t.Errorf("asked %d times, want at most %d", asked, most)
			}
		})
	}
}

// A disk on which a step takes a second is busy: reading uses at most a tenth of the time, and the
// backlog is caught up on when the disk is no longer busy.
func TestPaceYieldsToLoad(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	p := &pace{interval: time.Hour}
	const total = 1 << 30
	slow, _ := runPace(p, start, total, time.Hour, time.Second)
	if most := int64(time.Hour/time.Second/share+1) * step; slow > most {
		t.Errorf("read %d bytes in an hour of load, want at most %d", slow, most)
	}
	fast, _ := runPace(p, start.Add(time.Hour), total, time.Hour, time.Millisecond)
	if fast < total || fast > total+total/catchUp+2*step {
		t.Errorf("read %d bytes in the hour after, of %d", fast, total)
	}
}

func TestPaceIsBounded(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	p := &pace{interval: time.Millisecond}
	if read, _ := runPace(p, start, 1<<40, 10*time.Second, 0); read > 10*maxRate+2*step {
		t.Errorf("read %d bytes in ten seconds", read)
	}
	if n, wait := (&pace{interval: time.Hour}).next(start, 0); n != 0 || wait != maxWait {
		t.Errorf("nothing is stored: read %d, wait %v", n, wait)
	}
}
