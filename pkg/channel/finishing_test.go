package channel

import (
	"slices"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

func groupOf(list []*Finishing[string]) (all []seq.Offset) {
	for _, f := range list {
		all = append(all, f.Offset)
	}
	return all
}

func TestConcurrentFinishesAreSharedTogether(t *testing.T) {
	now := time.Unix(1000, 0)
	s := New(0, false)
	for _, d := range s.Take(now, 1, time.Hour, 9, 9, nil) {
		if err := s.Holds().Add(d.Offset, 1); err != nil {
			t.Fatal(err)
		}
	}
	var l Finishings[string]
	l.Add(0, "x", now)
	first := l.Next()
	l.Add(1, "y", now.Add(time.Second))
	l.Add(2, "x", now.Add(2*time.Second))
	if got := l.Next(); got != nil || l.Len() != 3 {
		t.Errorf("while a group is being sent: %v of %d", groupOf(got), l.Len())
	}
	if got := groupOf(l.Confirm(first)); !slices.Equal(got, []seq.Offset{0}) {
		t.Errorf("the first: %v", got)
	}
	l.Done()
	second := l.Next()
	if got := groupOf(second); !slices.Equal(got, []seq.Offset{1, 2}) {
		t.Errorf("the second: %v", got)
	}
	l.Add(3, "z", now.Add(3*time.Second))
	if late := groupOf(l.GiveUp(now.Add(6*time.Second), 5*time.Second, s.Holds())); !slices.Equal(late, []seq.Offset{1}) || s.Counts(9).Depth != 1 {
		t.Errorf("given up: %v, %d ready", late, s.Counts(9).Depth)
	}
	if got := groupOf(l.Confirm(second)); !slices.Equal(got, []seq.Offset{2}) || l.Len() != 1 {
		t.Errorf("the rest of the second: %v, and %d wait", got, l.Len())
	}
	l.Done()
	if got := groupOf(l.Next()); !slices.Equal(got, []seq.Offset{3}) {
		t.Errorf("the third: %v", got)
	}
}

func TestFinishGroupIsBounded(t *testing.T) {
	var l Finishings[int]
	for o := range seq.Offset(MaxGroup + 1) {
		l.Add(o, 0, time.Unix(0, 0))
	}
	if n := len(l.Confirm(l.Next())); n != MaxGroup || l.Len() != 1 {
		t.Errorf("%d are sent together, %d wait", n, l.Len())
	}
}
