package replication

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Parameters with which a CatchUp finds its rate.
const (
	// minCatchUpRate is the lowest rate, in bytes a second: a replica always progresses.
	minCatchUpRate = 4 << 20
	// firstCatchUpRate is the rate before anything is known.
	firstCatchUpRate = 32 << 20
	// maxCatchUpRate is the highest rate where the operator set none.
	maxCatchUpRate = 4 << 30
	// copyFor and restFor make a cycle: for restFor nothing is copied, so that the commits
	// of that time show what publishers see without it. Cycles begin at multiples of
	// their length on the wall clock, so that nodes whose clocks agree rest together.
	copyFor  = 400 * time.Millisecond
	restFor  = 100 * time.Millisecond
	cycleFor = copyFor + restFor
	// catchUpBurst is which part of a second's bytes may be sent at once.
	catchUpBurst = 20
	// minCommits is how many commits of each kind are compared at least, and maxCommits
	// how many are kept.
	minCommits = 5
	maxCommits = 64
	// commitNoise is a difference between commits that is not held against copying.
	commitNoise = 200 * time.Microsecond
	// liveShare is the least rate of copying, as a multiple of the rate at which the
	// copied partitions are published to, without the rests.
	liveShare = 2
	// catchUpIdle is the time without copying after which a CatchUp forgets what it has
	// measured.
	catchUpIdle = 2 * time.Second
)

// CatchUp limits how fast the leaders of a node together send data to replicas that are not in
// sync. It adapts like TCP congestion control, with multiplicative steps both ways: it pauses for a
// fifth of the time and compares publishes that began during pauses with those that began while
// copying (time to commit at the leaders, time to disk at the followers). The rate falls if nine of
// ten of the latter take more than twice as long, or longer than a pause, and rises if they take
// less than one and a half times as long. Without publishes it does not pause, and the rate rises
// fast. The rate never falls below 4 MiB/s, or below twice the publish rate of the copied
// partitions: otherwise a replica would never catch up.
//
// A CatchUp is safe for concurrent use; a nil one sets no limit.
type CatchUp struct {
	copying atomic.Bool // something was copied recently: commits are measured

	mu   sync.Mutex // guards what follows
	pace catchUpPace
}

// NewCatchUp returns a CatchUp with a maximum rate in bytes per second; 0: no maximum.
func NewCatchUp(maxRate int64) *CatchUp {
	if maxRate <= 0 {
		maxRate = maxCatchUpRate
	}
	return &CatchUp{pace: catchUpPace{max: float64(maxRate), rate: min(float64(maxRate), firstCatchUpRate)}}
}

// Delay returns how long to wait before more is copied; 0: it may be copied now.
func (c *CatchUp) Delay(now time.Time) time.Duration {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.copying.Store(true)
	return c.pace.delay(now)
}

// Sent records bytes in flight. Answered is called for the same number.
func (c *CatchUp) Sent(bytes int) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pace.credit -= float64(bytes)
	c.pace.open += bytes
}

// Answered records that bytes are no longer in flight.
func (c *CatchUp) Answered(now time.Time, bytes int) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pace.open -= bytes; c.pace.open == 0 {
		c.pace.quiet = now
	}
}

// Copying reports whether anything was copied recently. Committed need be called only then.
func (c *CatchUp) Copying() bool { return c != nil && c.copying.Load() }

// Committed records the commit of a batch begun at since. bytes is its size if its partition is
// being copied, else 0.
func (c *CatchUp) Committed(since, now time.Time, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.pace.used) > catchUpIdle {
		c.copying.Store(false)
		return
	}
	c.pace.committed(since, now, bytes)
}

// Rate returns how many bytes a second may be copied, and whether anything was
// copied recently.
func (c *CatchUp) Rate(now time.Time) (bytesPerSecond int64, copying bool) {
	if c == nil {
		return 0, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(c.pace.rate), c.copying.Load() && now.Sub(c.pace.used) <= catchUpIdle
}

// copier is one replicator's part of a CatchUp. The replicator's lock guards it.
type copier struct {
	catchUp *CatchUp
	wake    func()      // called, without the lock, when a wait is over
	timer   *time.Timer // of the last wait; nil: there was none in this session
}

// waits reports whether a follower that lacks the given number of bytes must wait. A follower that
// lacks at most a chunk is about to join and does not wait.
func (c *copier) waits(now time.Time, lacks int64, chunk int) bool {
	if lacks <= int64(chunk) {
		return false
	}
	wait := c.catchUp.Delay(now)
	switch {
	case wait == 0:
		return false
	case c.timer == nil:
		c.timer = time.AfterFunc(wait, c.wake)
	default:
		c.timer.Reset(wait)
	}
	return true
}

// sent records a request at a pace, and returns how many of its bytes are copied:
// those of a put with batches. The caller passes the same number to answered.
func (c *copier) sent(p Pace, kind uint8, size int) (copied int) {
	if !p.CatchUp || kind != KindPut || size <= putHeadBytes {
		return 0
	}
	c.catchUp.Sent(size)
	return size
}

// answered records that copied bytes are no longer in flight. It needs no lock.
func (c *copier) answered(now func() time.Time, copied int) {
	if copied > 0 {
		c.catchUp.Answered(now(), copied)
	}
}

// cancel ends a wait.
func (c *copier) cancel() {
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}

// catchUpPace is the decision of a CatchUp. It reads no clock.
type catchUpPace struct {
	max, rate float64 // bytes a second
	credit    float64 // bytes that may be copied; below 0: owed
	counted   time.Time
	used      time.Time // when a copy was last asked for
	open      int       // bytes in flight
	quiet     time.Time // since when none are in flight

	cycle, before catchUpCycle
	live          int       // bytes committed in the cycle, in partitions that are copied
	last          time.Time // when something was committed last

	loaded, rested []time.Duration // commits that began while copying, and while resting
}

// catchUpCycle is a period of copying followed, if there are publishes, by a rest.
type catchUpCycle struct {
	begun time.Time
	rests bool
}

// cycleOf returns the cycle that contains a moment.
func cycleOf(now time.Time, rests bool) catchUpCycle {
	into := now.Sub(now.Truncate(cycleFor)) // by the wall clock
	return catchUpCycle{now.Add(-into), rests}
}

// delay returns how long to wait before more is copied.
func (p *catchUpPace) delay(now time.Time) time.Duration {
	if now.Sub(p.used) > catchUpIdle {
		p.counted, p.credit = now, p.rate/catchUpBurst
		p.cycle, p.before, p.live, p.last = cycleOf(now, false), catchUpCycle{}, 0, time.Time{}
		p.loaded, p.rested = p.loaded[:0], p.rested[:0]
	}
	p.used = now
	p.turn(now)
	if into := now.Sub(p.cycle.begun); p.cycle.rests && into >= copyFor {
		p.counted = now // no credit for the rest
		return cycleFor - into
	}
	p.credit = min(p.credit+p.rate*now.Sub(p.counted).Seconds(), p.rate/catchUpBurst)
	p.counted = now
	if p.credit > 0 {
		return 0
	}
	return time.Duration(-p.credit/p.rate*float64(time.Second)) + time.Millisecond
}

// committed records a commit. One that began in the previous cycle still counts, or long
// commits would be missed. A commit counts as rested only if it began while nothing was
// in flight.
func (p *catchUpPace) committed(since, now time.Time, bytes int) {
	p.turn(now)
	p.last = now
	p.live += bytes
	c := p.cycle
	if since.Before(c.begun) {
		c = p.before
	}
	began, took := since.Sub(c.begun), now.Sub(since)
	switch {
	case began < copyFor: // or took longer than a cycle
		p.loaded = keepCommit(p.loaded, took)
	case c.rests && began < cycleFor && p.open == 0 && !since.Before(p.quiet):
		p.rested = keepCommit(p.rested, took)
	}
}

// keepCommit adds a commit, and drops the oldest if there are enough.
func keepCommit(all []time.Duration, took time.Duration) []time.Duration {
	if len(all) == maxCommits {
		all = all[:copy(all, all[1:])]
	}
	return append(all, took)
}

// turn begins a new cycle if the previous one is over.
func (p *catchUpPace) turn(now time.Time) {
	took := now.Sub(p.cycle.begun)
	if took < cycleFor {
		return
	}
	published := now.Sub(p.last) < catchUpIdle
	p.adapt(took, published)
	p.before, p.cycle, p.live = p.cycle, cycleOf(now, published), 0
}

// adapt changes the rate at the end of a cycle.
func (p *catchUpPace) adapt(took time.Duration, published bool) {
	lowest := minCatchUpRate + liveShare*float64(p.live)/took.Seconds()
	switch {
	case !published:
		p.rate *= 1.5
		p.loaded, p.rested = p.loaded[:0], p.rested[:0]
	case len(p.loaded) < minCommits:
	case ninth(p.loaded) > restFor: // longer than a rest, which cannot show what commits take without copying
		p.rate *= 0.7
		p.loaded = p.loaded[:0]
	case len(p.rested) >= minCommits:
		loaded, rested := ninth(p.loaded), ninth(p.rested)
		switch {
		case loaded > 2*rested+commitNoise:
			p.rate *= 0.7
		case loaded < rested+rested/2+commitNoise:
			p.rate *= 1.25
		}
		p.loaded, p.rested = p.loaded[:0], p.rested[:0]
	}
	p.rate = min(max(p.rate, lowest), p.max)
}

// ninth returns the duration that nine of ten do not exceed. It sorts all.
func ninth(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)*9/10]
}
