package once

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/age"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// waiting is a partition that holds publishes until the test appends them.
type waiting struct {
	*topic.Partition
	offers []topic.Offered
}

func (w *waiting) Offer(o topic.Offered) error {
	w.offers = append(w.offers, o)
	return nil
}

// appended appends everything that was offered.
func (w *waiting) appended(t *testing.T) {
	t.Helper()
	for _, o := range w.offers {
		if err := w.Partition.Offer(o); err != nil {
			t.Error(err)
		}
	}
	w.offers = nil
}

// TestWindowTogglesDuringPublishes: an id counts as known once it is offered, before it is in the
// log.
func TestWindowTogglesDuringPublishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		part := &waiting{Partition: r.part}
		var s Switch
		set := func(window time.Duration) {
			t.Helper()
			if err := s.Set(Options{Partition: part, Index: 2, Window: window, Ages: age.NewClock(nil)}); err != nil {
				t.Fatal(err)
			}
		}
		var answers []string
		publish := func(id string) (on bool) {
			t.Helper()
			on, err := s.Offer(topic.Offered{Messages: []topic.Message{{Body: []byte("m"), Dedup: []byte(id)}}, Done: func(x topic.Receipt) {
				answers = append(answers, fmt.Sprint(id, x.First, x.Err))
			}})
			if err != nil {
				t.Error(err)
			}
			return on
		}
		if publish("early") {
			t.Error("it is on before it was switched on")
		}
		set(time.Hour)
		publish("a")
		set(0)
		if publish("off") || s.Keeper() != nil {
			t.Error("it is on after it was switched off")
		}
		s.Expire()
		set(2 * time.Hour)
		publish("a")
		part.appended(t)
		s.Committed()
		if got := fmt.Sprint(answers); got != "[a0 <nil> a0 <nil>]" {
			t.Errorf("answers %s", got)
		}
		// Nothing is in progress: the keeper is dropped, and the ids are read
		// from the log.
		set(0)
		if s.keeper.Load() != nil {
			t.Error("the ids are kept though nothing is under way")
		}
		set(time.Hour)
		publish("a")
		publish("b")
		set(0)
		if s.keeper.Load() == nil {
			t.Error("the ids are let go of while a publish is under way")
		}
		part.appended(t)
		s.Expire()
		if s.keeper.Load() != nil {
			t.Error("the ids are kept though the publish is over")
		}
		set(time.Hour)
		publish("b")
		if got := fmt.Sprint(r.stored()); got != "[a b]" || r.log.End() != seq.Offset(2) {
			t.Errorf("stored %s", got)
		}
		if got := fmt.Sprint(answers[2:]); got != "[a0 <nil> b1 <nil> b1 <nil>]" {
			t.Errorf("answers %s", got)
		}
		s.Close()
	})
}

// TestOfferFindsTheKeeper: the window is switched off while a publish is between the check and its claims.
func TestOfferFindsTheKeeper(t *testing.T) {
	r := newRig(t)
	var s Switch
	on := Options{Partition: r.part, Index: 2, Window: time.Hour, Ages: age.NewClock(nil)}
	off := on
	off.Window = 0
	if err := s.Set(on); err != nil {
		t.Fatal(err)
	}
	s.offers.Add(1)
	if err := s.Set(off); err != nil {
		t.Fatal(err)
	}
	if s.Expire(); s.keeper.Load() == nil {
		t.Error("the keeper is gone before the publish has claimed its ids")
	}
	s.offers.Add(-1)
	if s.Expire(); s.keeper.Load() != nil {
		t.Error("the keeper stays although nothing is in progress")
	}
}
