package relay

import (
	"slices"
	"testing"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
)

func TestCreditIsDivided(t *testing.T) {
	idle, busy, hungry, had := Claim{}, Claim{Credit: 1, InFlight: 1}, Claim{Starved: true}, Claim{Credit: 1}
	for _, c := range []struct {
		ready, others, turn int
		claims              []Claim
		want                []int
	}{
		{10, 0, 0, nil, []int{}},
		{0, 0, 0, []Claim{idle, hungry}, []int{0, 0}},
		{10, 0, 0, []Claim{idle, idle, idle}, []int{4, 3, 3}},
		{10, 1, 5, []Claim{idle, idle, idle}, []int{3, 3, 2}},
		{3, 1, 0, []Claim{idle, idle}, []int{1, 1}},
		{2, 1, 0, []Claim{idle, idle}, []int{1, 1}},
		{1, 1, 0, []Claim{idle, idle}, []int{1, 0}},
		{1, 0, 1, []Claim{idle, idle}, []int{0, 1}},
		{1, 0, 1, []Claim{had, idle}, []int{1, 0}},
		{1, 0, 0, []Claim{had, hungry}, []int{0, 1}},
		{1, 0, 0, []Claim{busy, hungry}, []int{1, 0}},
		{2, 0, 0, []Claim{busy, had, hungry}, []int{1, 0, 1}},
		{1, 0, 2, []Claim{hungry, idle, hungry}, []int{0, 0, 1}},
		{4, 0, 0, []Claim{{Retiring: true, Credit: 3}, idle}, []int{0, 4}},
		{4, 0, 0, []Claim{{Retiring: true, Credit: 3}}, []int{0}},
	} {
		if got := Allot(c.ready, c.others, c.turn, c.claims); !slices.Equal(got, c.want) {
			t.Errorf("%d among %+v and %d: got %v, want %v", c.ready, c.claims, c.others, got, c.want)
		}
	}
}

func TestCreditIsLent(t *testing.T) {
	for _, c := range []struct {
		ready, local, others, turn int
		claims                     []Claim
		want                       []int
	}{
		{10, 0, 0, 0, []Claim{{Credit: 5}, {Credit: 5, InFlight: 5}}, []int{2, 8}},
		{10, 0, 0, 0, []Claim{{Credit: 2}, {Credit: 8, InFlight: 8}}, []int{1, 9}},
		{10, 0, 0, 0, []Claim{{Credit: 1}, {Credit: 9, InFlight: 9}}, []int{0, 10}},
		{10, 0, 0, 0, []Claim{{Starved: true}, {Credit: 10, InFlight: 10}}, nil},
		{10, 0, 0, 0, []Claim{{Starved: true}, {Credit: 10, InFlight: 9}}, []int{1, 9}},
		{10, 0, 0, 0, []Claim{{Credit: 1, InFlight: 1}, {Credit: 8, InFlight: 8}}, []int{2, 8}},
		{10, 0, 0, 1, []Claim{{Credit: 1, InFlight: 1}, {Credit: 8, InFlight: 8}}, []int{1, 9}},
		{10, 0, 1, 0, []Claim{{Credit: 5, InFlight: 5}}, []int{8}},
		{10, 4, 1, 0, []Claim{{Credit: 5, InFlight: 5}}, []int{6}},
		{10, 5, 1, 0, []Claim{{Credit: 5, InFlight: 5}}, nil},
		{1, 0, 0, 0, []Claim{{Credit: 1}, {}}, nil}, // it has room but received nothing
		{2, 0, 0, 0, []Claim{{Starved: true}, {Credit: 1}, {Credit: 1}}, []int{1, 1, 0}},
		{10, 0, 0, 0, []Claim{{InFlight: 3, Retiring: true}, {Credit: 5, InFlight: 5}}, []int{0, 7}},
	} {
		if got := Redistribute(c.ready, c.local, c.others, c.turn, c.claims); !slices.Equal(got, c.want) {
			t.Errorf("%d for %d, %d and %+v: got %v, want %v", c.ready, c.local, c.others, c.claims, got, c.want)
		}
	}
}

// TestNoMoreIsInFlightThanTheClientWants divides credit again after some was lent.
func TestNoMoreIsInFlightThanTheClientWants(t *testing.T) {
	rng := testrand.New(t)
	for range 10000 {
		ready, others := rng.IntN(30), rng.IntN(2)
		claims := make([]Claim, 1+rng.IntN(5))
		left := ready
		for i := range claims {
			c := &claims[i]
			c.InFlight = rng.IntN(left + 1)
			left -= c.InFlight
			c.Credit, c.Starved = rng.IntN(ready+1), rng.IntN(2) == 0
		}
		for name, parts := range map[string][]int{
			"allot": Allot(ready, others, rng.IntN(5), claims),
			"lend":  Redistribute(ready, 0, others, rng.IntN(5), claims),
		} {
			sum := 0
			for i, n := range parts {
				sum += max(n, claims[i].InFlight)
			}
			if sum > ready || parts != nil && slices.Min(parts) < 0 {
				t.Fatalf("%s of %d among %+v: %v", name, ready, claims, parts)
			}
		}
	}
}

// silent is a remote that never answers.
type silent struct{ forward.Remote }

func (silent) Go(meta.NodeID, uint8, [][]byte, func([]byte, error)) {}

// TestStarvedLeaderIsRemembered: the leader was granted credit that was withdrawn before the leader
// learned of it. It is still starved, but has already reported that, and would not report it again.
func TestStarvedLeaderIsRemembered(t *testing.T) {
	r := New(Options{Remote: silent{}})
	r.starved = true
	r.Assign(1, false)
	r.Assign(0, false)
	r.Tell()
	if !r.Claim().Starved {
		t.Error("it has no credit and is forgotten")
	}
	r.Assign(1, false)
	r.Tell()
	if r.Claim().Starved {
		t.Error("it has credit and counts as starved")
	}
	r.starved = true // an answer sent before the credit arrived
	r.Assign(1, false)
	if r.Claim().Starved {
		t.Error("it has credit and counts as starved")
	}
}
