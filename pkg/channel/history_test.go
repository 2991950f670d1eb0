package channel

import (
	"slices"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/seq"
)

// finishSome takes messages with a consumer, finishes some of them, and returns
// which.
func finishSome(s *State, now time.Time, take int, end seq.Offset, finish func() bool) (did []seq.Offset) {
	for _, d := range s.Take(now, 1, time.Minute, take, end, nil) {
		if finish() && s.Finish(d.Offset, 1) == nil {
			did = append(did, d.Offset)
		}
	}
	return did
}

// Whatever consumers do before an operator moves the channel, and after: an undo makes
// exactly the messages unfinished that were unfinished before, except those that were
// finished after a move forward.
func TestUndoIsExact(t *testing.T) {
	r := testrand.New(t)
	now := time.Unix(1000, 0)
	const end = 60
	for range 2000 {
		s := New(seq.Offset(r.IntN(5)), false)
		some := func() bool { return r.IntN(3) > 0 }
		finishSome(s, now, r.IntN(40), end, some)
		before := s.View().Position(now, 0)
		open := func(o seq.Offset) bool {
			state, _ := s.View().StateOf(o)
			return state != Finished
		}
		var want []seq.Offset
		for o := range seq.Offset(end) {
			if open(o) {
				want = append(want, o)
			}
		}
		target := seq.Offset(r.IntN(end + 1))
		s.Operator().Seek(target)
		since := finishSome(s, now, r.IntN(20), end, some)
		if target > before.Floor {
			want = slices.DeleteFunc(want, func(o seq.Offset) bool { return slices.Contains(since, o) })
		}
		s.Operator().Return(before.Floor, before.Finished, target)
		var got []seq.Offset
		for _, d := range s.Take(now, 1, time.Minute, end, end, nil) {
			got = append(got, d.Offset)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("floor %d, moved to %d, finished %v since: delivers %v, want %v", before.Floor, target, since, got, want)
		}
	}
}
