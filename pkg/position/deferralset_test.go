package position

import (
	"bytes"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/seq"
)

// someDeferrals returns deferrals at random offsets, some near each other, and at the ends of time.
func someDeferrals(rng *rand.Rand, n int) map[seq.Offset]Deferral {
	all := map[seq.Offset]Deferral{}
	o := seq.Offset(rng.IntN(10))
	for range n {
		d := Deferral{Offset: o, At: rng.Int64N(1 << 50), Delay: time.Duration(rng.Int64N(1 << 50))}
		switch rng.IntN(20) {
		case 0:
			d.At = math.MinInt64
		case 1:
			d.At, d.Delay = math.MaxInt64, math.MaxInt64
		case 2:
			d.At, d.Delay = 0, 0
		case 3, 4, 5:
			d.Attempts = seq.Attempts(rng.IntN(seq.MaxAttempts))
		}
		all[o] = d
		o += 1 + seq.Offset(rng.IntN(3)*rng.IntN(100))
	}
	return all
}

func sorted(all map[seq.Offset]Deferral) (list []Deferral) {
	for _, o := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[o])
	}
	return list
}

// matches reports how a set differs from a list, and whether its pages are valid.
func matches(t *testing.T, what string, s DeferralSet, want []Deferral) {
	t.Helper()
	if got := slices.Collect(s.All()); !slices.Equal(got, want) || s.Len() != len(want) {
		t.Fatalf("%s: %d of %d deferrals\n%v, want\n%v", what, s.Len(), len(want), got, want)
	}
	if again := NewDeferralSet(want...); !s.Equal(again) || !again.Equal(s) {
		t.Fatalf("%s: not equal to a set of the same", what)
	}
	p := Position{Deferred: s}
	data, _ := p.AppendBinary(nil)
	var q Position
	if err := q.UnmarshalBinary(data); err != nil || !q.Deferred.Equal(s) {
		t.Fatalf("%s: decoded %d deferrals, %v", what, q.Deferred.Len(), err)
	}
	if again, _ := q.AppendBinary(nil); !bytes.Equal(again, data) {
		t.Fatalf("%s: encoded otherwise the second time", what)
	}
	for p := range s.eachPage() {
		if p.n == 0 || p.n > pageEntries {
			t.Fatalf("%s: a page of %d", what, p.n)
		}
	}
}

func TestDeferralSetMatchesList(t *testing.T) {
	rng := testrand.New(t)
	for range 100 {
		all := someDeferrals(rng, rng.IntN(3000))
		s := NewDeferralSet(sorted(all)...)
		matches(t, "made", s, sorted(all))
		for range 10 {
			was, before := s, sorted(all)
			o := seq.Offset(rng.IntN(3000))
			switch rng.IntN(5) {
			case 0:
				s = s.from(o)
				maps.DeleteFunc(all, func(at seq.Offset, _ Deferral) bool { return at < o })
			case 1:
				s = s.below(o + 1000)
				maps.DeleteFunc(all, func(at seq.Offset, _ Deferral) bool { return at >= o+1000 })
			case 2:
				var found bool
				_, want := all[o]
				if s, found = s.with(o, func(*Deferral) bool { return false }); found != want {
					t.Fatalf("took out %d: %v, want %v", o, found, want)
				}
				delete(all, o)
			case 3:
				s, _ = s.with(o, func(d *Deferral) bool { d.Attempts++; return true })
				if d, ok := all[o]; ok {
					d.Attempts++
					all[o] = d
				}
			case 4:
				next := someDeferrals(rng, rng.IntN(50))
				c := Change{Position: Position{Deferred: NewDeferralSet(sorted(next)...), Floor: o / 4}, Unmarked: []Range{{o, o + seq.Offset(1+rng.IntN(900))}}}
				maps.DeleteFunc(next, func(at seq.Offset, _ Deferral) bool { return at >= c.Unmarked[0].From && at < c.Unmarked[0].End })
				c.Deferred = NewDeferralSet(sorted(next)...)
				s = s.overlay(c.Deferred, c.offsets(), c.Floor)
				maps.Copy(all, next)
				maps.DeleteFunc(all, func(at seq.Offset, _ Deferral) bool {
					_, named := next[at]
					return at < c.Floor || !named && at >= c.Unmarked[0].From && at < c.Unmarked[0].End
				})
			}
			matches(t, "changed", s, sorted(all))
			matches(t, "before", was, before)
		}
	}
}

func TestManyDeferralsTakeLittleMemory(t *testing.T) {
	var k Packer
	const n = 100_000
	rng := testrand.New(t)
	for o := range seq.Offset(n) {
		delay := time.Duration(rng.Int64N(int64(30 * 24 * time.Hour)))
		k.Add(Deferral{Offset: o, At: int64(o)*1000 + int64(delay), Delay: delay})
	}
	bytes := 0
	for _, p := range k.finish() {
		bytes += cap(p.entries)
	}
	if bytes > 14*n {
		t.Errorf("%d bytes for %d deferrals", bytes, n)
	}
}

// TestChangeOfLargeSetCopiesLittle: the finish of one of a million deferred messages is such
// a change.
func TestChangeOfLargeSetCopiesLittle(t *testing.T) {
	var k Packer
	for o := range seq.Offset(1_000_000) {
		k.Add(Deferral{Offset: o, At: int64(o), Delay: time.Hour})
	}
	s, o := k.Set(), seq.Offset(0)
	const times = 500
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		o = (o + 7919) % 1_000_000
		s, _ = s.with(o, func(d *Deferral) bool { d.Attempts++; return true })
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / times; got > 32<<10 {
		t.Errorf("%d bytes are copied", got)
	}
}

// TestSmallPagesAreJoined: whatever made them small.
func TestSmallPagesAreJoined(t *testing.T) {
	const n = 30_000
	full := func() DeferralSet {
		var k Packer
		for o := range seq.Offset(n) {
			k.Add(Deferral{Offset: o, At: int64(o), Delay: time.Hour})
		}
		return k.Set()
	}
	gone := func(o seq.Offset) bool { return o%500 != 0 }
	one := full()
	var named []Range
	for o := range seq.Offset(n) {
		if gone(o) {
			one, _ = one.with(o, func(*Deferral) bool { return false })
			named = append(named, Range{o, o + 1})
		}
	}
	lone := DeferralSet{n: n / 500}
	for o := seq.Offset(0); o < n; o += 500 {
		lone.groups = append(lone.groups, NewDeferralSet(Deferral{Offset: o, At: int64(o), Delay: time.Hour}).groups...)
	}
	for what, s := range map[string]DeferralSet{
		"one by one": one, "at once": full().overlay(DeferralSet{}, joined(named), 0), "shared": lone.overlay(DeferralSet{}, nil, 0),
	} {
		if s.Len() != n/500 || s.pageCount() > 8 {
			t.Errorf("%s: %d in %d pages", what, s.Len(), s.pageCount())
		}
	}
}
