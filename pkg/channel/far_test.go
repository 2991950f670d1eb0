package channel

import (
	"fmt"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
)

// checkFar reports which invariant of far messages is violated, given the number of other deferred
// messages, and how many far messages are below the cursor.
func checkFar(s *State, near int) (below uint64, err error) {
	f := &s.ledger.t.far
	n, last := 0, -1
	for d := range f.All() {
		_, tracked := s.ledger.t.index.get(d.Offset)
		if int(d.Offset) <= last || tracked || d.Offset < s.ledger.floor || s.ledger.done.Contains(d.Offset) || !isFar(&s.ledger, d.Offset) || s.ledger.ordered || s.ledger.keyed != nil {
			return 0, fmt.Errorf("offset %d is far behind %d, tracked: %v", d.Offset, last, tracked)
		}
		if d.At < f.Due() {
			return 0, fmt.Errorf("offset %d is due at %d, of all %d", d.Offset, d.At, f.Due())
		}
		last = int(d.Offset)
		if n++; d.Offset < s.ledger.cursor {
			below++
		}
	}
	if n != f.Len() || near+n != s.ledger.deferred {
		return 0, fmt.Errorf("%d are far, want %d; %d are deferred, %d of them near", f.Len(), n, s.ledger.deferred, near)
	}
	for o := s.ledger.floor; o < seq.Offset(last+1); o++ {
		_, tracked := s.ledger.t.index.get(o)
		if f.Had(o) && tracked == isFar(&s.ledger, o) && !s.ledger.done.Contains(o) {
			return 0, fmt.Errorf("offset %d was far and is nowhere", o)
		}
	}
	return below, nil
}

// deferMany defers messages by up to a day, each by a different time, and returns the state and the
// delays.
func deferMany(t *testing.T, n int) (*State, []time.Duration) {
	rng := testrand.New(t)
	s, delays := New(0, false), make([]time.Duration, n)
	for o := range delays {
		delays[o] = time.Duration(1 + rng.Int64N(int64(24*time.Hour)))
		s.Defer(seq.Offset(o), moveTime, delays[o])
	}
	return s, delays
}

func TestFarMessagesAreTrackedBeforeTheyAreDue(t *testing.T) {
	const n = 4_000
	s, delays := deferMany(t, n)
	if near := s.ledger.deferred - s.ledger.t.far.Len(); near > n/200 {
		t.Fatalf("%d of %d are near", near, n)
	}
	delivered := map[seq.Offset]bool{}
	for rounds := 0; len(delivered) < n; rounds++ {
		at, some := s.NextEvent()
		if !some || rounds > 20*n {
			t.Fatalf("%d of %d delivered after %d rounds; another event: %v", len(delivered), n, rounds, some)
		}
		now := at
		if now.Before(moveTime) {
			now = moveTime
		}
		s.Expire(now, nil)
		for _, d := range s.Take(now, 1, time.Minute, n, n, nil) {
			if due := moveTime.Add(delays[d.Offset]); !now.Equal(due) || delivered[d.Offset] {
				t.Fatalf("%d is delivered %v after it was due, delivered before: %v", d.Offset, now.Sub(due), delivered[d.Offset])
			}
			delivered[d.Offset] = true
			if err := s.Finish(d.Offset, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := check(s); err != nil || s.View().Floor() != n {
		t.Errorf("floor %d, %v", s.View().Floor(), err)
	}
}

func TestFarMessagesAreDeliveredAfterALongSleep(t *testing.T) {
	const n = 100_000 // more pages than are looked at in one go
	s, _ := deferMany(t, n)
	now := moveTime.Add(25 * time.Hour)
	if out := s.Take(now, 1, time.Minute, n, n, nil); len(out) != n || out[0].Offset != 0 || out[n-1].Offset != n-1 {
		t.Errorf("%d of %d are delivered", len(out), n)
	}
	if err := check(s); err != nil {
		t.Error(err)
	}
}

func TestFarMessagesAreTrackedInPortions(t *testing.T) {
	const n = 40_000
	s := New(0, false)
	for o := range seq.Offset(n) {
		s.Defer(o, moveTime, time.Hour)
	}
	now := moveTime.Add(time.Hour - soon/2)
	for rounds := 0; s.ledger.t.far.Len() > 0; rounds++ {
		if at, _ := s.NextEvent(); at.After(now) {
			t.Fatalf("the next event is %v late", at.Sub(now))
		}
		was := s.ledger.t.far.Len()
		s.Expire(now, nil)
		if drawn := was - s.ledger.t.far.Len(); drawn == 0 || drawn > n/2 {
			t.Fatalf("%d are tracked at once, of %d", drawn, was)
		}
	}
	if at, _ := s.NextEvent(); !at.Equal(moveTime.Add(time.Hour)) {
		t.Errorf("the next event is at %v", at.Sub(moveTime))
	}
}

func TestFarMessagesBehaveLikeOthers(t *testing.T) {
	const n = 3000
	s, delays := deferMany(t, n)
	for o := range seq.Offset(n) {
		if at, ok := s.View().Deferrals().Until(o); !ok || !at.Equal(moveTime.Add(delays[o])) {
			t.Fatalf("%d is deferred until %v: %v, want %v", o, at, ok, moveTime.Add(delays[o]))
		}
	}
	far := s.ledger.t.far.Len()
	if list, total := s.View().Deferrals().List(DeferredPage{Max: 10}); total != n || len(list) != 10 || s.ledger.t.far.Len() != far {
		t.Errorf("%d deferrals listed of %d, %d are far, want %d", len(list), total, s.ledger.t.far.Len(), far)
	}
	if list, ok := pendingBelow(&s.ledger, 100, n); ok || list != nil {
		t.Errorf("pending though the cursor is at 0")
	}
	s.Take(moveTime, 1, time.Minute, 1, n, nil) // moves the cursor
	if list, ok := pendingBelow(&s.ledger, 100, n); !ok || len(list) != 100 || list[50].State != Deferred {
		t.Errorf("pending: %v, %v", list, ok)
	}
	s.AdvanceTo(1000)
	if s.View().Counts(n).Deferred != n-1000 || s.View().Counts(n).Depth != 0 {
		t.Errorf("%+v after retention", s.View().Counts(n))
	}
	s.Operator().SetOrder(policy.Strict)
	if s.ledger.t.far.Len() != 0 || s.View().Counts(n).Deferred != n-1000 {
		t.Errorf("%d are far in an ordered channel, %+v", s.ledger.t.far.Len(), s.View().Counts(n))
	}
	if err := check(s); err != nil {
		t.Error(err)
	}
}

func TestMillionDeferredTakeLittleMemory(t *testing.T) {
	const n = 100_000
	s, _ := deferMany(t, n)
	p := s.View().Position(moveTime, moveTime.UnixNano())
	data, _ := p.AppendBinary(nil)
	if len(data) > 16*n {
		t.Errorf("a position of %d bytes for %d messages", len(data), n)
	}
	r := Restore(p, false, moveTime, moveTime.UnixNano())
	if again := r.View().Position(moveTime, moveTime.UnixNano()); !again.Deferred.Equal(p.Deferred) || r.ledger.t.far.Len() != s.ledger.t.far.Len() {
		t.Errorf("%d are far after a restart, want %d", r.ledger.t.far.Len(), s.ledger.t.far.Len())
	}
}

// Finished messages must not be kept, even if there are always other far messages.
func TestFinishedFarMessagesAreForgotten(t *testing.T) {
	const window = 30
	now := time.Unix(1000, 0)
	s := New(0, false)
	for o := range seq.Offset(100 * window) {
		s.Defer(o, now, window*10*time.Second)
		now = now.Add(10 * time.Second)
		for _, d := range s.Take(now, 1, time.Hour, 9, o+1, nil) {
			if err := s.Finish(d.Offset, 1); err != nil {
				t.Fatal(err)
			}
		}
		kept := 0
		for at := range o {
			if s.ledger.t.far.Had(at) {
				kept++
			}
		}
		if kept > 2*window {
			t.Fatalf("%d offsets are kept behind message %d, of which %d are far", kept, o, s.ledger.t.far.Len())
		}
	}
	if s.ledger.floor < 98*window || s.ledger.t.far.Len() == 0 {
		t.Errorf("floor %d, %d far", s.ledger.floor, s.ledger.t.far.Len())
	}
}

// A client's delay is packed like a publisher's.
func TestRequeuedMessagesArePacked(t *testing.T) {
	now := time.Unix(1000, 0)
	s := New(0, false)
	for _, d := range s.Take(now, 1, time.Hour, 100, 100, nil) {
		if err := s.Requeue(d.Offset, 1, now, 24*time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if s.ledger.t.far.Len() != 100 {
		t.Errorf("%d are packed", s.ledger.t.far.Len())
	}
	if at, ok := s.View().Deferrals().Until(7); !ok || !at.Equal(now.Add(24*time.Hour)) {
		t.Errorf("until %v, %v", at, ok)
	}
	if state, attempts := s.View().StateOf(7); state != Deferred || attempts != 1 {
		t.Errorf("%v after %d attempts", state, attempts)
	}
	now = now.Add(24 * time.Hour)
	if got := s.Take(now, 1, time.Hour, 200, 100, nil); len(got) != 100 || got[0] != (Delivery{Offset: 0, Attempts: 2}) {
		t.Errorf("%d come again, the first as %v", len(got), got)
	}
}

// TestMovedMessagesArePacked: a copy that is deferred for long takes as little memory as the message
// that it replaces.
func TestMovedMessagesArePacked(t *testing.T) {
	const n = 100
	s := New(0, false)
	for _, d := range s.Take(moveTime, 1, time.Minute, n, n, nil) {
		if err := s.Requeue(d.Offset, 1, moveTime, time.Hour); err != nil {
			t.Fatal(err)
		}
		s.Arrivals().Move(Copy{From: d.Offset, To: n + d.Offset, Attempts: seq.Attempts(d.Attempts), Rest: time.Hour}, moveTime)
	}
	if s.ledger.t.far.Len() != n || s.ledger.t.index.used != 0 {
		t.Errorf("%d of %d copies are packed, and %d are not", s.ledger.t.far.Len(), n, s.ledger.t.index.used)
	}
	if err := check(s); err != nil {
		t.Error(err)
	}
	if out := s.Take(moveTime.Add(time.Hour), 1, time.Minute, 2*n, 2*n, nil); len(out) != n || out[0].Offset != n || out[0].Attempts != 2 {
		t.Errorf("%d of %d copies are delivered", len(out), n)
	}
}
