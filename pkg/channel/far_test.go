package channel

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
)

// checkFar reports which invariant of far messages is violated, given the number of other deferred
// messages, and how many far messages are below the cursor.
func checkFar(s *State, near int) (below uint64, err error) {
	f := &s.t.far
	n, last, empty := 0, -1, 0
	for i := range f.pages {
		p := &f.pages[i]
		due := int64(math.MaxInt64)
		for d := range p.all() {
			_, tracked := s.t.index.get(d.Offset)
			if int(d.Offset) <= last || tracked || d.Offset < s.floor || s.done.Contains(d.Offset) || !isFar(&s.ledger, d.Offset) || s.ordered || s.keyed != nil {
				return 0, fmt.Errorf("offset %d is far behind %d, tracked: %v", d.Offset, last, tracked)
			}
			last, due = int(d.Offset), min(due, d.At)
			if n++; d.Offset < s.cursor {
				below++
			}
		}
		if p.n == 0 {
			empty++
			continue
		}
		if p.due != due || f.due > due || int(p.last) != last {
			return 0, fmt.Errorf("page of %d to %d is due at %d, of all %d, want %d", p.n, p.last, p.due, f.due, due)
		}
	}
	if n != f.n || empty != f.empty || near+n != s.deferred {
		return 0, fmt.Errorf("%d are far, want %d; %d are deferred, %d of them near", f.n, n, s.deferred, near)
	}
	for from, end := range f.met.Ranges() {
		for o := max(from, s.floor); o < end; o++ {
			_, tracked := s.t.index.get(o)
			if f.n > 0 && tracked == isFar(&s.ledger, o) && !s.done.Contains(o) {
				return 0, fmt.Errorf("offset %d was far and is nowhere", o)
			}
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
	if near := s.deferred - s.t.far.n; near > n/200 {
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
	if err := check(s); err != nil || s.Floor() != n {
		t.Errorf("floor %d, %v", s.Floor(), err)
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
	const n = 4 * drawnAtOnce * pageEntries
	s := New(0, false)
	for o := range seq.Offset(n) {
		s.Defer(o, moveTime, time.Hour)
	}
	now := moveTime.Add(time.Hour - soon/2)
	for i := 1; i <= 4; i++ {
		if at, _ := s.NextEvent(); at.After(now) {
			t.Fatalf("the next event is %v late", at.Sub(now))
		}
		s.Expire(now, nil)
		if left := n - i*drawnAtOnce*pageEntries; s.t.far.n != left {
			t.Fatalf("%d are far after %d rounds, want %d", s.t.far.n, i, left)
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
		if at, ok := DeferredUntil(s, o); !ok || !at.Equal(moveTime.Add(delays[o])) {
			t.Fatalf("%d is deferred until %v: %v, want %v", o, at, ok, moveTime.Add(delays[o]))
		}
	}
	far := s.t.far.n
	if list, total := Deferrals(s, DeferredPage{Max: 10}); total != n || len(list) != 10 || s.t.far.n != far {
		t.Errorf("%d deferrals listed of %d, %d are far, want %d", len(list), total, s.t.far.n, far)
	}
	if list, ok := pendingBelow(s, 100, n); ok || list != nil {
		t.Errorf("pending though the cursor is at 0")
	}
	s.Take(moveTime, 1, time.Minute, 1, n, nil) // moves the cursor
	if list, ok := pendingBelow(s, 100, n); !ok || len(list) != 100 || list[50].State != Deferred {
		t.Errorf("pending: %v, %v", list, ok)
	}
	s.AdvanceTo(1000)
	if s.Counts(n).Deferred != n-1000 || s.Counts(n).Depth != 0 {
		t.Errorf("%+v after retention", s.Counts(n))
	}
	SetOrder(s, policy.Strict)
	if s.t.far.n != 0 || s.Counts(n).Deferred != n-1000 {
		t.Errorf("%d are far in an ordered channel, %+v", s.t.far.n, s.Counts(n))
	}
	if err := check(s); err != nil {
		t.Error(err)
	}
}

func TestMillionDeferredTakeLittleMemory(t *testing.T) {
	const n = 100_000
	s, _ := deferMany(t, n)
	bytes := 0
	for i := range s.t.far.pages {
		bytes += cap(s.t.far.pages[i].entries)
	}
	if bytes > 16*n {
		t.Errorf("%d bytes for %d messages", bytes, n)
	}
	p := s.Position(moveTime, moveTime.UnixNano())
	data, _ := p.AppendBinary(nil)
	if len(data) > 16*n {
		t.Errorf("a position of %d bytes for %d messages", len(data), n)
	}
	r := Restore(p, false, moveTime, moveTime.UnixNano())
	if again := r.Position(moveTime, moveTime.UnixNano()); !again.Deferred.Equal(p.Deferred) || r.t.far.n != s.t.far.n {
		t.Errorf("%d are far after a restart, want %d", r.t.far.n, s.t.far.n)
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
		if n := s.t.far.met.Len(); n > 2*window {
			t.Fatalf("%d offsets are kept behind message %d, of which %d are far", n, o, s.t.far.n)
		}
	}
	if s.floor < 98*window || s.t.far.n == 0 {
		t.Errorf("floor %d, %d far", s.floor, s.t.far.n)
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
	if s.t.far.n != 100 {
		t.Errorf("%d are packed", s.t.far.n)
	}
	if at, ok := DeferredUntil(s, 7); !ok || !at.Equal(now.Add(24*time.Hour)) {
		t.Errorf("until %v, %v", at, ok)
	}
	if state, attempts := s.StateOf(7); state != Deferred || attempts != 1 {
		t.Errorf("%v after %d attempts", state, attempts)
	}
	now = now.Add(24 * time.Hour)
	if got := s.Take(now, 1, time.Hour, 200, 100, nil); len(got) != 100 || got[0] != (Delivery{0, 2}) {
		t.Errorf("%d come again, the first as %v", len(got), got)
	}
}

// TestFarPagesStayFew: if messages come in random order, and most of them are
// removed.
func TestFarPagesStayFew(t *testing.T) {
	const n = 40_000
	rng := testrand.New(t)
	s := New(0, false)
	for _, o := range rng.Perm(n) {
		s.Defer(seq.Offset(o), moveTime, time.Hour+time.Duration(o)*time.Millisecond) //nolint:gosec // not negative
	}
	f := &s.t.far
	if most := 3 * n / pageEntries; len(f.pages) > most {
		t.Errorf("%d pages, want %d at most", len(f.pages), most)
	}
	var gone []seq.Offset
	for o := range seq.Offset(n) {
		if o%1000 != 0 {
			gone = append(gone, o)
		}
	}
	if done := Cancel(s, gone); len(done) != len(gone) {
		t.Fatalf("%d of %d were cancelled", len(done), len(gone))
	}
	if len(f.pages) > farBlock {
		t.Errorf("%d pages for %d messages", len(f.pages), f.n)
	}
	if _, err := checkFar(s, 0); err != nil {
		t.Fatal(err)
	}
	for range 3 { // some pages at a time
		s.Take(moveTime.Add(3*time.Hour), 1, time.Minute, 1000, n, nil)
	}
	if f.n > 0 {
		t.Errorf("%d are still far", f.n)
	}
}

// BenchmarkSoonest looks for messages that are due soon among 10 million, of which few are.
func BenchmarkSoonest(b *testing.B) {
	var f far
	for o := range seq.Offset(10_000_000) {
		f.add(Deferral{o, int64(time.Hour) + int64(o)*int64(time.Millisecond), time.Hour, 0})
	}
	now := int64(time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		now += int64(time.Millisecond)
		f.soonest(now, now+int64(soon), now+2*int64(soon))
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
		Move(s, Copy{From: d.Offset, To: n + d.Offset, Attempts: d.Attempts, Rest: time.Hour}, moveTime)
	}
	if s.t.far.n != n || s.t.index.used != 0 {
		t.Errorf("%d of %d copies are packed, and %d are not", s.t.far.n, n, s.t.index.used)
	}
	if err := check(s); err != nil {
		t.Error(err)
	}
	if out := s.Take(moveTime.Add(time.Hour), 1, time.Minute, 2*n, 2*n, nil); len(out) != n || out[0].Offset != n || out[0].Attempts != 2 {
		t.Errorf("%d of %d copies are delivered", len(out), n)
	}
}
