package topic

import (
	"time"

	"github.com/brokerd/brokerd/pkg/age"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/seq"
)

// load is the moment at which a partition was opened: messages stored by then are at least that
// old.
type load struct {
	at   time.Time
	wall int64      // wall clock at that moment, of the clock by which positions are stored
	end  seq.Offset // of the log
	done seq.Offset // its committed end
}

func newLoad(o *Options) load {
	now := o.Now()
	return load{at: now, wall: o.Ages.Leader(now), end: o.Log.End(), done: o.Log.CommittedEnd()}
}

// wallAt returns the time at now of the clock by which the positions were stored, in ns since 1970.
func (l *load) wallAt(now time.Time) int64 { return l.wall + int64(now.Sub(l.at)) }

// rest returns the rest at now of a publisher's delay for a message in a batch. It is at most the
// whole delay, counted from the opening of the partition if the message was stored before.
func (p *Partition) rest(b commitlog.Batch, o seq.Offset, delay time.Duration, now time.Time) time.Duration {
	if delay == 0 {
		return 0
	}
	passed := p.o.Ages.Age(ageOf(b), now)
	if o < p.load.end {
		passed = max(passed, now.Sub(p.load.at))
	}
	return max(0, delay-passed)
}

// expired reports whether the message that a consumer read last is older than its time to live at
// now.
func expired(k *Consumer, o seq.Offset, ttl time.Duration, now time.Time) bool {
	p := k.ch.p
	passed := p.o.Ages.Age(livesSince(k.at.Batch(), k.message.Address, k.message.TTL > 0), now)
	if o < p.load.end {
		passed = max(passed, now.Sub(p.load.at))
	}
	return passed >= ttl
}

// ageOf returns what an age.Clock needs to know of a batch.
func ageOf(b commitlog.Batch) age.Batch {
	return age.Batch{First: b.First(), Epoch: b.Epoch(), Timestamp: b.Timestamp()}
}

// livesSince returns what an age.Clock needs to know of a message in a batch to count its time to live.
// A copy is as old as its origin, unless it replaces that and has a time to live of its own, as the record
// says: then that is the rest.
func livesSince(b commitlog.Batch, a *record.Address, own bool) age.Batch {
	of := ageOf(b)
	if a != nil && (!a.Moves || !own) {
		of.Timestamp = a.Timestamp
	}
	return of
}
