package topic

import (
	"testing"
	"time"
)

// A publisher's delay is measured as elapsed time, not by the wall clock:
// neither the moment at which the channel reads the message nor a change of the
// clock alters it.
func TestPublishersDelaysSurviveClockSteps(t *testing.T) {
	const delay = time.Minute
	for name, set := range map[string]struct{ before, after time.Duration }{
		"right all the time":   {},
		"an hour forward":      {after: time.Hour},
		"two days back":        {after: -48 * time.Hour},
		"wrong when published": {before: 72 * time.Hour},
		"in 1970":              {before: -50 * 365 * 24 * time.Hour},
	} {
		for _, late := range []bool{false, true} {
			b := newBench(t)
			b.step = set.before
			first := func() *Channel { return b.channel("c", 1) }
			c := (*Channel)(nil)
			if !late {
				c = first()
			}
			b.publishAll([]Message{{Body: []byte("x"), Delay: delay}})
			b.now, b.step = b.now.Add(4*time.Second), set.after
			b.publish("y") // stamped by the clock as it is now
			if late {
				c = first() // it finds the message in the log
			}
			r := b.join(c)
			want(t, name+", at once", r.take(9, b.now), "y")
			r.finish("y")
			for _, step := range []struct {
				at   time.Duration
				want string
			}{{delay - time.Second, ""}, {delay, "x"}} {
				b.now = t0.Add(step.at)
				c.Tick(b.now)
				want(t, name+" after "+step.at.String(), r.take(9, b.now), step.want)
			}
		}
	}
}

// A message read from disk is due at its wall clock time, and at the latest its
// own delay after it was read.
func TestLoadedDelaysAreBounded(t *testing.T) {
	const delay = time.Minute
	for name, set := range map[string]struct {
		step time.Duration // while the process is down for a second
		due  time.Duration // after the restart
	}{
		"right":         {due: 59 * time.Second},
		"two days back": {step: -48 * time.Hour, due: delay},
		"an hour ahead": {step: time.Hour, due: 0},
	} {
		b := newBench(t)
		c := b.channel("c", 1)
		b.publish("requeued")
		r := b.join(c)
		want(t, name, r.take(1, b.now), "requeued")
		if err := r.Requeue(r.got["requeued"], b.now, delay); err != nil {
			t.Fatal(err)
		}
		b.publishAll([]Message{{Body: []byte("published"), Delay: delay}})
		if err := b.p.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		b.now, b.step = b.now.Add(time.Second), set.step
		b.restart()
		c = b.channel("c", 1)
		up := b.now
		b.now = up.Add(10 * time.Second) // the channel has no consumer at first
		r = b.join(c)
		for _, at := range []time.Duration{set.due - time.Second, set.due} {
			if at < 10*time.Second && at < set.due {
				continue
			}
			b.now = up.Add(max(at, 10*time.Second))
			c.Tick(b.now)
			got := len(r.take(9, b.now))
			if due := at >= set.due; due != (got > 0) {
				t.Errorf("%s: %v after the restart: got %d bytes, due %v", name, at, got, due)
			}
		}
		if c := c.Stats(); c.Deferred != 0 || c.Depth != 0 {
			t.Errorf("%s: left: %+v", name, c)
		}
	}
}

// A message is handed over at the moment that its consumer asked for it, and its
// age is that at this moment, however long the log was read for meanwhile.
func TestLoadedMessageIsNotEarlyByReadTime(t *testing.T) {
	const delay, reading = time.Minute, 14 * time.Millisecond
	b := newBench(t)
	b.publishAll([]Message{{Body: []byte("x"), Delay: delay}})
	b.now = b.now.Add(time.Second)
	b.restart()
	c := b.channel("c", 1) // it finds the message in the log: no positions know when it is due
	r := b.join(c)
	asked := t0.Add(delay - reading/2)
	b.now = asked.Add(reading)
	want(t, "before its time", r.take(9, asked), "")
	c.Tick(t0.Add(delay - time.Nanosecond))
	want(t, "a moment before its time", r.take(9, t0.Add(delay-time.Nanosecond)), "")
	c.Tick(t0.Add(delay))
	want(t, "in time", r.take(9, t0.Add(delay)), "x")
}
