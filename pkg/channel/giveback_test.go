package channel

import (
	"slices"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

func TestReturnedMessagesKeepOrder(t *testing.T) {
	now := time.Unix(1, 0)
	s := New(0, false)
	var got []seq.Offset
	for len(got) < 8 {
		taken := s.Take(now, 1, time.Minute, 3, 8, nil)
		got = append(got, taken[0].Offset)
		for _, d := range slices.Backward(taken[1:]) {
			s.UndoTake(d.Offset)
		}
	}
	if want := []seq.Offset{0, 1, 2, 3, 4, 5, 6, 7}; !slices.Equal(got, want) {
		t.Errorf("delivered %v", got)
	}
	if c := s.View().Counts(8); c.InFlight != 8 || c.Delivered != 8 || c.Depth != 0 {
		t.Errorf("counts %+v", c)
	}
}
