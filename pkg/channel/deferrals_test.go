package channel

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/pkg/position"
	"github.com/brokerd/brokerd/pkg/seq"
)

// reschedule cancels or advances some deferred messages, and others that are not deferred.
func (p *pair) reschedule(rng *rand.Rand) error {
	w := Window{Since: p.now.Add(-time.Minute), Until: p.now.Add(time.Duration(rng.IntN(30)) * time.Second)}
	is := func(o seq.Offset) bool { e := p.m.at[o]; return e != nil && e.state == Deferred && !e.parked }
	var want []seq.Offset
	for _, o := range slices.Sorted(maps.Keys(p.m.at)) {
		if is(o) && w.has(p.m.at[o].due) {
			want = append(want, o)
		}
	}
	if got := p.s.View().Deferrals().In(w); !slices.Equal(got, want) {
		return fmt.Errorf("deferred in the window are %v, want %v", got, want)
	}
	offsets := want
	if rng.IntN(3) == 0 {
		offsets = []seq.Offset{p.m.floor + seq.Offset(rng.IntN(20))}
	}
	want = slices.DeleteFunc(slices.Clone(offsets), func(o seq.Offset) bool { return !is(o) })
	advance := rng.IntN(2) == 0
	p.note("reschedule %v, advance %v", offsets, advance)
	act := Operator.Cancel
	if advance {
		act = Operator.Advance
	}
	if got := act(p.s.Operator(), offsets); !slices.Equal(got, want) {
		return fmt.Errorf("rescheduled %v, want %v", got, want)
	}
	for _, o := range want {
		if e := p.m.at[o]; advance {
			e.advanced, e.backoff = true, false
			p.m.enqueue(o)
		} else {
			e.state = Finished
		}
	}
	p.m.settle()
	for o, e := range p.m.at {
		if got, want := p.s.View().Deferrals().Advanced(o), e.advanced && e.state != Finished && e.state != Deferred; got != want && e.attempts == 0 {
			return fmt.Errorf("%d is advanced: %v, want %v", o, got, want)
		}
	}
	return nil
}

// Offsets that are 2^32 apart have the same low half.
func TestDistantOffsetsAreDistinguished(t *testing.T) {
	s := New(0, false)
	const far = 1 << 32
	for o := range seq.Offset(40) {
		s.Defer(o*far/2+7, moveTime, time.Minute)
	}
	s.Operator().Cancel([]seq.Offset{7, 3*far + 7})
	for o := range seq.Offset(40) {
		at := o*far/2 + 7
		if _, deferred := s.View().Deferrals().Until(at); deferred != (at != 7 && at != 3*far+7) {
			t.Errorf("%d deferred: %v", at, deferred)
		}
	}
	if err := check(s); err != nil {
		t.Error(err)
	}
}

// A message does not count as advanced once its deferral is over.
func TestDeferralWithoutDelayIsNotAdvanced(t *testing.T) {
	s := New(0, false)
	s.Defer(0, moveTime, 0)
	p := s.View().Position(moveTime, moveTime.UnixNano())
	if s = Restore(p, false, moveTime, moveTime.UnixNano()); s.View().Deferrals().Advanced(0) || first(p.Deferred).Delay == 0 {
		t.Errorf("%+v", p)
	}
}

func (p *pair) restart() error {
	p.note("restart")
	stored := p.s.View().Position(p.now, p.now.UnixNano())
	data, err := stored.AppendBinary(nil)
	if err != nil {
		return err
	}
	var again position.Position
	if err := again.UnmarshalBinary(data); err != nil {
		return err
	}
	if diff := gocmp.Diff(stored, again); diff != "" {
		return errors.New(diff)
	}
	s := New(again.Floor, p.m.ordered)
	s.ledger.nearby = p.nearby
	p.s = s
	restore(&s.ledger, again, p.now, p.now.UnixNano())
	was := p.m.policy
	p.m.restart()
	if diff := gocmp.Diff(stored, p.s.View().Position(p.now, p.now.UnixNano())); diff != "" {
		return errors.New(diff)
	}
	p.s.Operator().SetPolicy(was)
	p.m.setPolicy(was)
	return nil
}

func TestDeferredMessagesAreListedByWhenTheyAreDue(t *testing.T) {
	s := New(0, false)
	const n = 3000
	for o := range seq.Offset(n) {
		s.Defer(o, moveTime, time.Duration(n-o)*time.Second)
	}
	s.Defer(n, moveTime, time.Second) // at the same time as the last
	var got []seq.Offset
	page := DeferredPage{Window: Window{Until: moveTime.Add(10 * time.Second)}, Max: 4}
	for len(got) < 20 {
		list, total := s.View().Deferrals().List(page)
		if total != 10 {
			t.Fatalf("%d in the window", total)
		}
		if len(list) == 0 {
			break
		}
		for _, m := range list {
			got = append(got, m.Offset)
		}
		last := list[len(list)-1]
		page.After, page.From = last.Due, last.Offset+1
	}
	if want := []seq.Offset{n - 1, n, n - 2, n - 3, n - 4, n - 5, n - 6, n - 7, n - 8, n - 9}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if list, total := s.View().Deferrals().List(DeferredPage{Window: Window{Since: moveTime.Add(n * time.Second)}, Max: 9}); total != 1 || list[0].Offset != 0 {
		t.Errorf("%+v, %d", list, total)
	}
}

// An advanced message is delivered whatever delay its publisher set, also after a restart
// and after a consumer returned it, until it is deferred again. A cancelled message is never
// delivered.
func TestAdvancedAndCancelledMessagesStaySo(t *testing.T) {
	s := New(0, false)
	for o := range seq.Offset(4) {
		s.Defer(o, moveTime, time.Hour)
	}
	rec := s.Recorder()
	kept := rec.Position(moveTime, moveTime.UnixNano(), 0)
	if got := s.Operator().Advance([]seq.Offset{2, 2, 1, 9}); !slices.Equal(got, []seq.Offset{2, 1}) {
		t.Errorf("advanced %v", got)
	}
	if got := s.Operator().Cancel([]seq.Offset{0, 0, 1}); !slices.Equal(got, []seq.Offset{0}) {
		t.Errorf("cancelled %v", got)
	}
	change, ok := rec.Changes(moveTime, moveTime.UnixNano())
	if !ok {
		t.Fatal("no changes")
	}
	kept.Apply(change)
	data, _ := kept.AppendBinary(nil)
	var read position.Position
	if err := read.UnmarshalBinary(data); err != nil {
		t.Fatal(err)
	}
	s = Restore(read, false, moveTime, moveTime.UnixNano())
	if got := s.View().Counts(4); got.Depth != 2 || got.Deferred != 1 || s.View().Floor() != 1 {
		t.Errorf("%+v, floor %d", got, s.View().Floor())
	}
	if got := s.Take(moveTime, 1, time.Minute, 9, 4, nil); !slices.Equal(got, []Delivery{{Offset: 1, Attempts: 1}, {Offset: 2, Attempts: 1}}) {
		t.Errorf("%v", got)
	}
	s.UndoTake(1)
	if !s.View().Deferrals().Advanced(1) || !s.View().Deferrals().Advanced(2) || s.View().Deferrals().Advanced(3) {
		t.Error("it is not known that they are advanced")
	}
	if err := s.Requeue(2, 1, moveTime, time.Minute); err != nil || s.View().Deferrals().Advanced(2) {
		t.Errorf("advanced though it is deferred again, %v", err)
	}
}
