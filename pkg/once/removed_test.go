package once

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// retain removes all messages, which are finished, as retention does.
func (r *rig) retain() {
	r.t.Helper()
	now := time.Now()
	_, err := r.log.Retain(commitlog.Retention{
		Floor: r.log.End(), Now: now, Moment: now, Last: true,
		Save: func(end seq.Offset) error { return Save(r.ids, r.log, r.ages, time.Hour, end, now) },
	})
	if err == nil {
		err = r.ids.Expire(Retention(time.Hour), now)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// restart begins another term in another process.
func (r *rig) restart() {
	r.close()
	r.open()
}

// An id is known during its window though its message was removed, in the process that stored it and in the next
// ones; afterwards it is not, and takes no space.
func TestIDsOutliveTheirMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.want(r.publish("a"), nil, 0)
		r.retain()
		if start := r.log.Start(); start != 1 {
			t.Fatalf("the log starts at %d: nothing was removed", start)
		}
		r.want(r.publish("a"), nil, 0)
		r.restart()
		r.want(r.publish("a"), nil, 0)
		r.want(r.publish("b"), nil, 1)
		time.Sleep(50 * time.Minute)
		r.want(r.publish("c"), nil, 2)
		r.retain()
		r.restart()
		for i, id := range []string{"a", "b", "c"} {
			r.want(r.publish(id), nil, seq.Offset(i)) //nolint:gosec // not negative
		}
		time.Sleep(time.Hour)
		r.want(r.publish("a"), nil, 3)
		r.want(r.publish("c"), nil, 4)
		time.Sleep(time.Hour)
		r.retain()
		time.Sleep(2 * time.Hour)
		r.retain()
		if bytes, _ := r.ids.Bytes(); bytes > 0 {
			t.Errorf("%d bytes of ids are kept after their window", bytes)
		}
	})
}

// Retention of messages that are older than the window stores no ids.
func TestOldIDsAreNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.want(r.publish("a"), nil, 0)
		time.Sleep(3 * time.Hour)
		r.retain()
		if bytes, _ := r.ids.Bytes(); bytes > 0 {
			t.Errorf("%d bytes", bytes)
		}
	})
}

// A node whose wall clock was set, or whose clock is ahead of the former leader's, knows the ids of the window.
func TestWallClockTakesNoPartInTheWindow(t *testing.T) {
	for _, step := range []time.Duration{-48 * time.Hour, -90 * time.Minute, -time.Minute, time.Minute, 90 * time.Minute, 48 * time.Hour} {
		for _, removed := range []bool{false, true} {
			t.Run(fmt.Sprint(step, removed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t)
					for i := range 50 {
						r.want(r.publish(fmt.Sprint("a", i)), nil, seq.Offset(i)) //nolint:gosec // not negative
						time.Sleep(time.Second)
					}
					if removed {
						r.retain()
					}
					r.wall += step
					r.restart()
					for i := range 50 {
						r.want(r.publish(fmt.Sprint("a", i)), nil, seq.Offset(i)) //nolint:gosec // not negative
					}
					r.want(r.publish("b"), nil, 50) // by the other clock
					r.wall -= 2 * step
					r.restart()
					for i := range 50 {
						r.want(r.publish(fmt.Sprint("a", i)), nil, seq.Offset(i)) //nolint:gosec // not negative
					}
				})
			})
		}
	}
}

// Whenever the power is lost, the ids that were answered as stored are known afterwards: from the log, or from what
// retention stored before it removed their messages.
func TestIDsOutliveLossOfPower(t *testing.T) {
	rnd := testrand.New(t)
	for range 40 {
		synctest.Test(t, func(t *testing.T) {
			mem := vfs.NewCrashable()
			if err := vfs.MkdirAllSynced(mem, "p"); err != nil {
				t.Fatal(err)
			}
			r := &rig{t: t, fs: mem}
			r.open()
			stored := 0
			for range 2 + rnd.IntN(3) {
				for range rnd.IntN(20) {
					r.want(r.publish(fmt.Sprint(stored)), nil, seq.Offset(stored)) //nolint:gosec // not negative
					stored++
					time.Sleep(time.Second)
				}
				if rnd.IntN(3) > 0 {
					r.retain()
				}
				crashed := mem.CrashClone(vfs.Crash{Rand: rnd, KeepPercent: rnd.IntN(101), TornPercent: 50})
				r.close()
				mem = crashed
				r.fs = mem
				r.open()
				r.log.Commit(r.log.End())
				for i := range stored {
					r.want(r.publish(fmt.Sprint(i)), nil, seq.Offset(i)) //nolint:gosec // not negative
				}
			}
			r.close()
		})
	}
}

// What cannot be stored is not removed.
func TestMessagesStayIfTheirIDsCannotBeStored(t *testing.T) {
	r := newRig(t)
	r.want(r.publish("a"), nil, 0)
	failed := errors.New("disk")
	_, err := r.log.Retain(commitlog.Retention{
		Floor: r.log.End(), Now: time.Now(), Last: true, Save: func(seq.Offset) error { return failed },
	})
	if !errors.Is(err, failed) || r.log.Start() != 0 {
		t.Errorf("%v, the log starts at %d", err, r.log.Start())
	}
}

// Damage of a file costs its ids, is reported, and keeps no partition from leading.
func TestDamagedIDsAreReported(t *testing.T) {
	r := newRig(t)
	r.want(r.publish("a"), nil, 0)
	r.retain()
	if err := r.ids.Replace(true, nil, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := r.ids.Replace(false, []byte("damage"), time.Now()); err != nil {
		t.Fatal(err)
	}
	var told error
	if _, err := open(Options{Partition: r.part, Index: 2, Window: time.Hour, Ages: r.ages, IDs: r.ids, IDsDamaged: func(err error) { told = err }}); err != nil || told == nil {
		t.Errorf("%v, reported: %v", err, told)
	}
}

// Ids are on disk longer than their window by what the clocks of leaders may differ.
func TestMarginCoversTheClocksOfLeaders(t *testing.T) {
	for window, least := range map[time.Duration]time.Duration{0: 0, 10 * time.Minute: 12 * time.Minute, 24 * time.Hour: 26 * time.Hour} {
		if got := Retention(window); got < least || window == 0 && got != 0 {
			t.Errorf("window %v: %v on disk, want at least %v", window, got, least)
		}
	}
}
