package fan_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/fan"
)

func TestJoinReturnsTheErrorsInOrder(t *testing.T) {
	err := fan.Join(4, 2, func(i int) error {
		if i%2 == 0 {
			return nil
		}
		return fmt.Errorf("of %d", i)
	})
	if err == nil || err.Error() != "of 1\nof 3" {
		t.Errorf("got %v", err)
	}
	if err := fan.Join(3, 2, func(int) error { return nil }); err != nil {
		t.Errorf("of none that fail: %v", err)
	}
}

func TestOutCallsEachOnceWithLimit(t *testing.T) {
	const most = 3
	for _, n := range []int{0, 1, 2, most, 10} {
		synctest.Test(t, func(t *testing.T) {
			xs := make([]int, n)
			for i := range xs {
				xs[i] = i
			}
			var mu sync.Mutex // guards the fields below
			called := map[int]int{}
			running, peak := 0, 0
			fan.Out(xs, most, func(x int) {
				mu.Lock()
				called[x]++
				running++
				peak = max(peak, running)
				mu.Unlock()
				<-time.After(time.Second)
				mu.Lock()
				running--
				mu.Unlock()
			})
			for _, x := range xs {
				if called[x] != 1 {
					t.Errorf("of %d: %d was called %d times", n, x, called[x])
				}
			}
			if running != 0 || peak != min(n, most) {
				t.Errorf("of %d: %d run at the same time and %d at the end, want %d and none", n, peak, running, min(n, most))
			}
		})
	}
}
