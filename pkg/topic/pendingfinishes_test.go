package topic

import (
	"slices"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/seq"
)

func groupOf(list []*pendingFinish) (all []seq.Offset) {
	for _, f := range list {
		all = append(all, f.offset)
	}
	return all
}

func TestConcurrentFinishesAreSharedTogether(t *testing.T) {
	now := time.Unix(1000, 0)
	s := channel.New(0, false)
	for _, d := range s.Take(now, 1, time.Hour, 9, 9, nil) {
		if err := s.Holds().Add(d.Offset, 1); err != nil {
			t.Fatal(err)
		}
	}
	var l pendingFinishes
	l.add(0, nil, now)
	first := l.next()
	l.add(1, nil, now.Add(time.Second))
	l.add(2, nil, now.Add(2*time.Second))
	if got := l.next(); got != nil || len(l.list) != 3 {
		t.Errorf("while a group is being sent: %v of %d", groupOf(got), len(l.list))
	}
	if got := groupOf(l.confirm(first)); !slices.Equal(got, []seq.Offset{0}) {
		t.Errorf("the first: %v", got)
	}
	l.done()
	second := l.next()
	if got := groupOf(second); !slices.Equal(got, []seq.Offset{1, 2}) {
		t.Errorf("the second: %v", got)
	}
	l.add(3, nil, now.Add(3*time.Second))
	if late := groupOf(l.giveUp(now.Add(6*time.Second), 5*time.Second, s.Holds())); !slices.Equal(late, []seq.Offset{1}) || s.View().Counts(9).Depth != 1 {
		t.Errorf("given up: %v, %d ready", late, s.View().Counts(9).Depth)
	}
	if got := groupOf(l.confirm(second)); !slices.Equal(got, []seq.Offset{2}) || len(l.list) != 1 {
		t.Errorf("the rest of the second: %v, and %d wait", got, len(l.list))
	}
	l.done()
	if got := groupOf(l.next()); !slices.Equal(got, []seq.Offset{3}) {
		t.Errorf("the third: %v", got)
	}
}

func TestFinishGroupIsBounded(t *testing.T) {
	var l pendingFinishes
	for o := range seq.Offset(maxGroup + 1) {
		l.add(o, nil, time.Unix(0, 0))
	}
	if n := len(l.confirm(l.next())); n != maxGroup || len(l.list) != 1 {
		t.Errorf("%d are sent together, %d wait", n, len(l.list))
	}
}

func TestNextGroupIsSharedAfterTheFirst(t *testing.T) {
	var l pendingFinishes
	s, now := channel.New(0, false), time.Unix(1000, 0)
	l.add(0, nil, now)
	first := l.next()
	l.confirm(first)
	l.add(1, nil, now)
	if late := l.giveUp(now.Add(time.Hour), time.Second, s.Holds()); len(late) != 1 || late[0].offset != 1 {
		t.Errorf("given up: %d", len(late))
	}
	l.add(2, nil, now)
	if got := l.next(); got != nil {
		t.Error("more are sent before the first are done")
	}
	if l.done(); len(l.next()) != 1 {
		t.Error("no more are sent")
	}
}
