package latency

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
)

func TestQuantilesAreCloseToExactOnes(t *testing.T) {
	r := testrand.New(t)
	for range 50 {
		var merged Histogram
		var all []time.Duration
		for range 3 {
			var h Histogram
			for range r.IntN(400) {
				d := time.Duration(math.Exp(r.Float64() * math.Log(float64(10*time.Hour))))
				h.Record(d)
				all = append(all, d)
			}
			merged.Merge(&h)
		}
		if merged.Count() != uint64(len(all)) {
			t.Fatalf("count %d, want %d", merged.Count(), len(all))
		}
		slices.Sort(all)
		for _, q := range []float64{0.01, 0.5, 0.95, 0.99, 1} {
			if len(all) == 0 {
				continue
			}
			want := all[max(int(math.Ceil(q*float64(len(all)))), 1)-1]
			got := merged.Quantile(q)
			if off := (got - want).Abs(); off > max(want/32, 512)+1 {
				t.Errorf("quantile %v of %d: %v, exactly %v", q, len(all), got, want)
			}
		}
	}
}

func TestDurationsBeyondRangeAreClamped(t *testing.T) {
	for _, c := range []struct {
		d      time.Duration
		bucket int
	}{
		{-time.Hour, 0},
		{0, 0},
		{1023, 0},
		{1024, 1},
		{15 << 10, 15},
		{16 << 10, 16},
		{32<<10 - 1, 31},
		{32 << 10, 32},
		{1<<52 - 1, buckets - 1},
		{math.MaxInt64, buckets - 1},
	} {
		if got := bucketOf(c.d); got != c.bucket {
			t.Errorf("%v is in bucket %d, want %d", c.d, got, c.bucket)
		}
	}
	if got := new(Histogram).Quantile(0.5); got != 0 {
		t.Errorf("quantile of nothing: %v", got)
	}
}

func TestWindowForgetsOlderValues(t *testing.T) {
	w := NewWindow(40)
	count := func(now int64) uint64 {
		var h Histogram
		w.AddTo(&h, now)
		return h.Count()
	}
	w.Record(9, time.Second)
	w.Record(10, time.Second)
	for _, c := range []struct {
		now  int64
		want uint64
	}{{10, 2}, {39, 2}, {40, 1}, {49, 1}, {50, 0}, {1000, 0}} {
		if got := count(c.now); got != c.want {
			t.Errorf("at %d: %d, want %d", c.now, got, c.want)
		}
	}
	w.Record(85, time.Second) // reuses the slot of 9
	if got := count(85); got != 1 {
		t.Errorf("a slot taken again holds %d", got)
	}
}

func TestCountersSaturate(t *testing.T) {
	var h, one Histogram
	h.add(3, math.MaxUint32)
	one.Record(3 << unitBits)
	h.Merge(&one)
	if h.Count() != math.MaxUint32 || h.Quantile(1) != 3<<unitBits+1<<(unitBits-1) {
		t.Errorf("%d durations, the longest %v", h.Count(), h.Quantile(1))
	}
}

func TestHistogramEncodesAsText(t *testing.T) {
	r := testrand.New(t)
	for n := range 50 {
		var h, got Histogram
		for range n * n {
			h.Record(time.Duration(math.Exp(r.Float64() * math.Log(float64(10*time.Hour)))))
		}
		text, err := h.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		got.Record(time.Second) // older values are overwritten
		if err := got.UnmarshalText(text); err != nil || got != h {
			t.Fatalf("%s is another one: %v", text, err)
		}
	}
	for _, text := range []string{"1", "1@", "@1", "x@1", "1@x", "-1@1", "1@100000", "4294967296@1", "1@1 2"} {
		if err := new(Histogram).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestMergedLeavesOperandsUnchanged(t *testing.T) {
	var a, b Histogram
	a.Record(time.Second)
	b.Record(time.Minute)
	if sum := Merged(&a, &b); sum.Count() != 2 || a.Count() != 1 || b.Count() != 1 {
		t.Errorf("%d of %d and %d", sum.Count(), a.Count(), b.Count())
	}
	if Merged(&a, nil) != &a || Merged(nil, &b) != &b || Merged(nil, nil) != nil {
		t.Error("nil counts")
	}
}
