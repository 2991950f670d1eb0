package coord_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
)

// flood publishes to a term until it accepts no more. A term without room makes
// flood wait.
func flood(term *coord.Term, size int) {
	for range 2000 {
		if term.Append(&record{strings.Repeat("x", size), make(chan error, 1)}) != nil {
			return
		}
	}
}

// TestBudgetOfANodeBoundsItsPartitions: partitions with silent followers must not
// each hold their maximum. They leave room for a partition that makes progress.
func TestBudgetOfANodeBoundsItsPartitions(t *testing.T) {
	const size, limit = 1000, 1 << 20
	for _, stuck := range []int{1, 2, 5, 20} {
		synctest.Test(t, func(t *testing.T) {
			budget := coord.NewBudget(limit)
			var all []*cluster
			begin := func() (*cluster, *coord.Term) {
				c := newBudgetCluster(t, budget)
				all = append(all, c)
				return c, c.elect("a", three...)
			}
			for range stuck { // one at a time
				c, term := begin()
				c.net.SetCut("a", "b", true)
				go flood(term, size)
				time.Sleep(20 * time.Millisecond)
			}
			used, _, full := budget.Usage()
			if used > limit+size || used < limit/20 || full == 0 {
				t.Errorf("%d partitions that do not progress hold %d bytes of %d; %d entries found none left", stuck, used, limit, full)
			}
			_, term := begin()
			for range 100 {
				if err := within(time.Second, put(term, strings.Repeat("y", size))); err != nil {
					t.Fatalf("beside %d partitions that do not progress: %v", stuck, err)
				}
			}
			for _, c := range all {
				c.close()
			}
			if used, _, _ := budget.Usage(); used != 0 {
				t.Errorf("%d bytes are held when all is over", used)
			}
		})
	}
}

// TestWithoutABudgetEachPartitionHoldsItsMaximum shows why the budget is
// needed.
func TestWithoutABudgetEachPartitionHoldsItsMaximum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := coord.NewBudget(1 << 40)
		var all []*cluster
		for range 2 {
			c := newBudgetCluster(t, budget)
			all = append(all, c)
			term := c.elect("a", three...)
			c.net.SetCut("a", "b", true)
			go flood(term, 1<<20)
		}
		time.Sleep(time.Second)
		if used, _, _ := budget.Usage(); used < 2*coord.MaxUncommitted {
			t.Errorf("two partitions hold %d bytes", used)
		}
		for _, c := range all {
			c.close()
		}
	})
}

// TestEntryBeyondTheBudgetIsRefusedAsBusy: a term that holds nothing does not wait
// for others, and continues when they have released their shares.
func TestEntryBeyondTheBudgetIsRefusedAsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := coord.NewBudget(1000)
		c, other := newBudgetCluster(t, budget), newBudgetCluster(t, budget)
		term := c.elect("a", three...)
		c.net.SetCut("a", "b", true)
		large := put(term, strings.Repeat("x", 1000-commitlog.RecordBytes(1000)+1000)) // all of it, and no more
		synctest.Wait()
		free := other.elect("a", three...)
		err := within(time.Second, put(free, "y"))
		if !errors.Is(err, failure.Uncommitted) || fate.Of(err) != fate.Refused {
			t.Errorf("beyond the budget: %v", err)
		}
		c.net.SetCut("a", "b", false)
		if err := within(time.Minute, large); err != nil {
			t.Error(err)
		}
		if err := within(time.Second, put(free, "y")); err != nil {
			t.Errorf("when there is room again: %v", err)
		}
		if isr := slices.Clone(other.isr()); len(isr) != 3 {
			t.Errorf("in sync: %v", isr)
		}
		c.close()
		other.close()
	})
}

// TestTermWaitsForItsOwnEntries: waiting entries use the same budget,
// and the commit of the term's earlier entries makes room for them.
func TestTermWaitsForItsOwnEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := coord.NewBudget(4000)
		c := newBudgetCluster(t, budget)
		term := c.elect("a", three...)
		done := make(chan error, 100)
		for range 100 {
			go func() { done <- <-put(term, strings.Repeat("x", 1000)) }()
		}
		for range 100 {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		if _, _, full := budget.Usage(); full == 0 {
			t.Error("none had to wait: the test shows nothing")
		}
		c.close()
	})
}
