package processing

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// requeues reports n requeues of a message, spread over a time.
func (x *Spins) requeues(o seq.Offset, n int, attempts uint16, from time.Time, over time.Duration) {
	for i := range n {
		x.Requeued(o, attempts, from.Add(over*time.Duration(i)/time.Duration(n)))
	}
}

func TestMessageRequeuedOver100TimesASecondSpins(t *testing.T) {
	began := time.Now()
	for name, c := range map[string]struct {
		play func(x *Spins)
		at   time.Duration
		want []seq.Offset
	}{
		"none": {func(*Spins) {}, time.Second, nil},
		"one":  {func(x *Spins) { x.requeues(7, 500, 200, began, time.Second) }, time.Second, []seq.Offset{7}},
		"the fastest first": {func(x *Spins) {
			x.requeues(7, 500, 200, began, time.Second/2)
			x.requeues(8, 900, 200, began.Add(time.Second/2), time.Second/2)
		}, time.Second, []seq.Offset{8, 7}},
		"within the first":      {func(x *Spins) { x.requeues(7, 500, 200, began, time.Second/2) }, time.Second / 2, nil},
		"a hundred":             {func(x *Spins) { x.requeues(7, 100, 200, began, time.Second) }, time.Second, nil},
		"few attempts":          {func(x *Spins) { x.requeues(7, 500, 99, began, time.Second) }, time.Second, nil},
		"saturated attempts":    {func(x *Spins) { x.requeues(7, 500, math.MaxUint16, began, time.Second) }, time.Second, []seq.Offset{7}},
		"it has stopped":        {func(x *Spins) { x.requeues(7, 500, 200, began, time.Second); x.At(began.Add(time.Second)) }, 2 * time.Second, nil},
		"not asked for long   ": {func(x *Spins) { x.requeues(7, 30_000, 200, began, time.Second) }, time.Minute, nil},
		"it spins for a minute": {func(x *Spins) { x.requeues(7, 60*500, 200, began, time.Minute) }, time.Minute, []seq.Offset{7}},
		"slowly, and for long":  {func(x *Spins) { x.requeues(7, 60*50, 200, began, time.Minute) }, time.Minute, nil},
		"again after a pause": {func(x *Spins) {
			x.requeues(7, 500, 200, began, time.Second)
			x.requeues(9, 500, 200, began.Add(time.Hour), time.Second)
		}, time.Hour + time.Second, []seq.Offset{9}},
		"many that do not, once": {func(x *Spins) {
			for o := range seq.Offset(5000) {
				x.Requeued(o, 200, began)
			}
		}, time.Second, nil},
	} {
		var x Spins
		c.play(&x)
		var got []seq.Offset
		for _, s := range x.At(began.Add(c.at)) {
			got = append(got, s.Offset)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestSpinningMessagesAreBounded(t *testing.T) {
	began := time.Now()
	var x Spins
	for i := range 200 * 2000 {
		x.Requeued(seq.Offset(i%2000), 200, began.Add(time.Duration(i)))
	}
	if len(x.counts) != maxCounted {
		t.Errorf("%d are counted", len(x.counts))
	}
	if got := x.At(began.Add(time.Second)); len(got) != maxSpins {
		t.Errorf("%d are named", len(got))
	}
}
