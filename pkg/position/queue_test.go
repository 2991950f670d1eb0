package position

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/seq"
)

// checkQueue reports which invariant of a queue is violated.
func checkQueue(f *DeferralQueue) error {
	n, last, empty := 0, -1, 0
	for i := range f.pages {
		p := &f.pages[i]
		due := int64(math.MaxInt64)
		for d := range p.all() {
			if int(d.Offset) <= last || !f.Had(d.Offset) {
				return fmt.Errorf("offset %d is behind %d", d.Offset, last)
			}
			last, due = int(d.Offset), min(due, d.At)
			n++
		}
		if p.n == 0 {
			empty++
			continue
		}
		if p.due != due || f.due > due || int(p.last) != last {
			return fmt.Errorf("page of %d to %d is due at %d, of all %d, want %d", p.n, p.last, p.due, f.due, due)
		}
	}
	if n != f.n || empty != f.empty {
		return fmt.Errorf("%d messages, want %d", f.n, n)
	}
	return nil
}

// TestQueueMatchesModel compares a queue with a map, at random operations.
func TestQueueMatchesModel(t *testing.T) {
	rng := testrand.New(t)
	for range 4 {
		var f DeferralQueue
		all, gone, now := map[seq.Offset]Deferral{}, map[seq.Offset]bool{}, int64(0)
		remove := func(list []Deferral) {
			for _, d := range list {
				if all[d.Offset] != d {
					t.Fatalf("%+v is removed, want %+v", d, all[d.Offset])
				}
				delete(all, d.Offset)
				gone[d.Offset] = true
			}
		}
		for range 100 {
			switch rng.IntN(8) {
			case 0, 1, 2, 3:
				from := seq.Offset(rng.IntN(20_000))
				for o := from; o < from+seq.Offset(rng.IntN(900)); o++ {
					if _, there := all[o]; there || gone[o] {
						continue
					}
					all[o] = Deferral{o, now + 1 + rng.Int64N(1000), time.Duration(1 + rng.IntN(1000)), seq.Attempts(rng.IntN(3))} //nolint:gosec // small
					f.Add(all[o])
				}
			case 4:
				now += rng.Int64N(100)
				remove(f.Soonest(now, now+10, now+20))
				for o, d := range all {
					if d.At <= now {
						t.Fatalf("%d is due and not removed", o)
					}
				}
			case 5:
				var offsets []seq.Offset
				for o := range all {
					if rng.IntN(3) == 0 {
						offsets = append(offsets, o)
					}
				}
				slices.Sort(offsets)
				taken := f.Take(offsets)
				if len(taken) != len(offsets) {
					t.Fatalf("%d of %d are taken", len(taken), len(offsets))
				}
				remove(taken)
			case 6:
				from := seq.Offset(rng.IntN(20_000))
				f.Remove(from, from+2000, func(d Deferral) bool { return d.Attempts > 0 }, remove)
			case 7:
				below, n := seq.Offset(rng.IntN(300)), 0
				for o := range all {
					if o < below {
						delete(all, o)
						gone[o] = true
						n++
					}
				}
				if dropped := f.DropBelow(below); dropped != n {
					t.Fatalf("%d dropped, want %d", dropped, n)
				}
			}
			if err := checkQueue(&f); err != nil {
				t.Fatal(err)
			}
			want := sorted(all)
			if got := slices.Collect(f.All()); !slices.Equal(got, want) || f.Len() != len(want) {
				t.Fatalf("%d messages, want %d", len(got), len(want))
			}
			matches(t, "the set", f.Set(0), want)
			r := f.Reader()
			for _, o := range slices.Sorted(maps.Keys(all)) {
				if d, ok := r.Find(o); !ok || d != all[o] {
					t.Fatalf("%+v is found, want %+v", d, all[o])
				}
			}
			if at := seq.Offset(rng.IntN(20_000)); f.LenFrom(at) != int64(len(slices.DeleteFunc(want, func(d Deferral) bool { return d.Offset < at }))) {
				t.Fatalf("%d messages from %d on", f.LenFrom(at), at)
			}
		}
	}
}

func TestQueueIsSearchedInPortions(t *testing.T) {
	const portion = drawnAtOnce * pageEntries
	var f DeferralQueue
	for o := range seq.Offset(4 * portion) {
		f.Add(Deferral{o, 1000, 1000, 0})
	}
	for i := 1; i <= 4; i++ {
		if got := f.Soonest(500, 1000, 2000); len(got) != portion || f.Len() != (4-i)*portion {
			t.Fatalf("%d are removed in round %d, and %d left", len(got), i, f.Len())
		}
	}
}

func TestQueueTakesLittleMemory(t *testing.T) {
	const n = 100_000
	rng := testrand.New(t)
	var f DeferralQueue
	for o := range seq.Offset(n) {
		delay := 1 + rng.Int64N(int64(24*time.Hour))
		f.Add(Deferral{o, delay, time.Duration(delay), 0})
	}
	bytes := 0
	for i := range f.pages {
		bytes += cap(f.pages[i].entries)
	}
	if bytes > 16*n {
		t.Errorf("%d bytes for %d messages", bytes, n)
	}
}

// TestPagesStayFew: if messages come in random order, and most of them are removed.
func TestPagesStayFew(t *testing.T) {
	const n = 40_000
	rng := testrand.New(t)
	var f DeferralQueue
	for _, i := range rng.Perm(n) {
		o := seq.Offset(i) //nolint:gosec // not negative
		f.Add(Deferral{o, int64(time.Hour) + int64(i)*int64(time.Millisecond), time.Hour, 0})
	}
	if most := 3 * n / pageEntries; len(f.pages) > most {
		t.Errorf("%d pages, want %d at most", len(f.pages), most)
	}
	var gone []seq.Offset
	for o := range seq.Offset(n) {
		if o%1000 != 0 {
			gone = append(gone, o)
		}
	}
	if done := f.Take(gone); len(done) != len(gone) {
		t.Fatalf("%d of %d were removed", len(done), len(gone))
	}
	if len(f.pages) > queueBlock {
		t.Errorf("%d pages for %d messages", len(f.pages), f.n)
	}
	if err := checkQueue(&f); err != nil {
		t.Fatal(err)
	}
	for now := int64(3 * time.Hour); f.n > 0; {
		if len(f.Soonest(now, now, now)) == 0 {
			t.Fatalf("%d are due and not removed", f.n)
		}
	}
}

// BenchmarkSoonest looks for messages that are due soon among 10 million, of which few are.
func BenchmarkSoonest(b *testing.B) {
	var f DeferralQueue
	for o := range seq.Offset(10_000_000) {
		f.Add(Deferral{o, int64(time.Hour) + int64(o)*int64(time.Millisecond), time.Hour, 0})
	}
	now, soon := int64(time.Hour), int64(30*time.Second)
	b.ReportAllocs()
	for b.Loop() {
		now += int64(time.Millisecond)
		f.Soonest(now, now+soon, now+2*soon)
	}
}
