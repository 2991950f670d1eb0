package once

import (
	"time"

	"github.com/brokerd/brokerd/pkg/age"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/seq"
)

// timeline places the batches of a log on one axis of time, in their order. This node's wall clock takes no part, as
// it may have been wrong when it was set or the machine started: an id that is taken for old would be stored twice. Time
// passes between two batches that this process heard of, by its monotonic clock, and between two of one epoch, by the
// clock of that leader. From one leader to the next, or from one process to the next, none passes: an id is then
// remembered longer.
type timeline struct {
	ages  *age.Clock
	now   time.Time
	at    time.Duration // of the newest batch
	some  bool          // there is one: last
	last  age.Batch
	heard bool // its age is known
	age   time.Duration
}

func batchOf(b commitlog.Batch) age.Batch {
	return age.Batch{First: b.First(), Epoch: b.Epoch(), Timestamp: b.Timestamp()}
}

// add adds the next batch, and returns its time. Times do not decrease.
func (t *timeline) add(b age.Batch) time.Duration {
	old, heard := t.ages.Heard(b, t.now)
	switch {
	case !t.some:
	case heard && t.heard:
		t.at += max(0, t.age-old)
	case b.Epoch == t.last.Epoch:
		t.at += max(0, time.Duration(b.Timestamp-t.last.Timestamp))
	}
	t.some, t.last, t.heard, t.age = true, b, heard, old
	return t.at
}

// end returns the time of now.
func (t *timeline) end() time.Duration {
	if t.heard {
		return t.at + t.age
	}
	return t.at
}

// since returns an offset of a log before which all batches are older than a duration, by a timeline.
func since(l *commitlog.Log, ages *age.Clock, now time.Time, d time.Duration) (seq.Offset, error) {
	r := l.NewReader()
	defer r.Release()
	passed := time.Duration(0)
	epochs, end := l.Epochs(), l.End()
	for i := len(epochs) - 1; i >= 0; i-- {
		first := max(epochs[i].Start, l.Start())
		if first >= end {
			continue
		}
		last, err := r.Written(end - 1)
		if err == nil {
			var begin commitlog.Batch
			if begin, err = r.Written(first); err == nil {
				if old, heard := ages.Heard(batchOf(last), now); heard {
					passed = max(passed, old)
				}
				rest := int64(d - passed)
				if lasted := last.Timestamp() - begin.Timestamp(); lasted > rest {
					from, err := l.OffsetAt(last.Timestamp() - rest)
					return max(from, first), err
				}
				passed += time.Duration(max(0, last.Timestamp()-begin.Timestamp()))
			}
		}
		// Of an epoch that cannot be read at one of its ends, no time is known to have passed.
		end = first
	}
	return l.Start(), nil
}
