package sim

import (
	"math/rand/v2"
	"sync"
	"time"
)

// maxDelay is the longest delay that a publisher asks for.
const maxDelay = 1500 * time.Millisecond

// smallStep is a step of a clock that the broker does not notice, because it is below
// age.PairTolerance: the next leader may deliver a message early by this much.
const smallStep = 300 * time.Millisecond

// clocks holds the wall clocks of the machines, and the delays that must not depend on them.
type clocks struct {
	mu     sync.Mutex           // guards what follows
	since  time.Time            // since then no process has started and every replica is in sync; zero: one of these does not hold
	called map[string]time.Time // when messages with a delay were published
	delays map[string]time.Duration
}

func newClocks() *clocks {
	return &clocks{called: map[string]time.Time{}, delays: map[string]time.Duration{}}
}

// delay chooses the delay of a message that is about to be published. One of oneIn messages gets a
// delay.
func (c *clocks) delay(name string, oneIn int, rnd *rand.Rand) time.Duration {
	if rnd.IntN(oneIn) > 0 {
		return 0
	}
	d := time.Millisecond + time.Duration(rnd.Int64N(int64(maxDelay)))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.called[name], c.delays[name] = time.Now(), d
	return d
}

// calm notes whether no process starts from now on and every replica is in sync.
func (c *clocks) calm(calm bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since = time.Time{}
	if calm {
		c.since = time.Now()
	}
}

// early returns how much too early a message may be delivered now. A replica that did not run when
// the message was written knows the message's age only from wall clocks: it may deliver the message
// early by as much as the clocks differ.
func (c *clocks) early(name string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	called, ok := c.called[name]
	if !ok || c.since.IsZero() || called.Before(c.since) {
		return 0
	}
	return max(0, c.delays[name]-time.Since(called)-smallStep)
}

// setClock sets a machine's wall clock: wrong by days, by hours, by a little, or right.
func (m *machine) setClock(rnd *rand.Rand) {
	steps := []time.Duration{0, 0, time.Hour, -time.Hour, 72 * time.Hour, -48 * time.Hour, smallStep, -5 * time.Second}
	d := steps[rnd.IntN(len(steps))]
	if m.w.plan.repeats {
		d = max(-time.Hour, min(d, time.Hour)) // a window of dedup ids tolerates this much
	}
	if m.w.plan.lives {
		d = m.w.minority(m, d)
	}
	m.w.trace.Add("the clock of %s is %v off", m.host, d)
	m.offset.Store(int64(d))
}

// restartClock sets the clock of a machine whose node starts again. m.mu is held.
func (m *machine) restartClock() {
	if m.w.plan.lives && m.lives > 1 {
		m.setClock(rand.New(rand.NewPCG(uint64(m.lives), uint64(m.host[1]))))
	}
}

// livesFor is the time to live of messages, shorter than some clocks are wrong by and longer than any run.
const livesFor = 30 * time.Minute

// minority returns what a machine's clock may be off by while messages have a time to live: one clock is ahead,
// and the others are right. Most clocks of a cluster must be.
func (w *world) minority(m *machine, d time.Duration) time.Duration {
	d = max(d, -smallStep)
	for _, o := range w.machines {
		if o != m && time.Duration(o.offset.Load()) > smallStep && d > smallStep {
			return 0
		}
	}
	return d
}

// wall returns what a machine's wall clock shows at now.
func (m *machine) wall(now time.Time) int64 { return now.UnixNano() + m.offset.Load() }

// strobe sets clocks for a while. Nothing else happens in this time, except that a machine stops
// cleanly, so that other machines lead what it led. No message is delivered before its delay has
// passed.
func (w *world) strobe() {
	w.clocks.calm(true)
	stops := w.rnd.IntN(20)
	for i := range 20 {
		m := w.machines[w.rnd.IntN(len(w.machines))]
		m.setClock(w.rnd)
		if l := m.alive(); i == stops && l != nil {
			w.trace.Add("%s is to stop", m.host)
			l.stop()
			defer func() { <-l.gone }()
		}
		time.Sleep(time.Duration(w.rnd.Int64N(int64(200 * time.Millisecond))))
	}
	time.Sleep(maxDelay)
	w.clocks.calm(false)
}
