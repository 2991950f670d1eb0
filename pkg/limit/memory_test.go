package limit

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/failure"
)

const testBudget = 4 << 20

func TestLargeRequestsLeaveAQuarterToSmallOnes(t *testing.T) {
	m := NewMemory(testBudget)
	big := m.Share(Bodies)
	if !big.Try(3 << 20) {
		t.Fatal("three quarters are refused")
	}
	other := m.Share(Bodies)
	if other.Try(SmallShare + 1) {
		t.Error("a big share takes of the last quarter")
	}
	var small []Share
	for {
		s := m.Share(Bodies)
		if !s.Try(SmallShare) {
			break
		}
		small = append(small, s)
	}
	if want := 1 << 20 / SmallShare; len(small) != want {
		t.Errorf("%d small shares fit, want %d", len(small), want)
	}
	if u := m.Usage(); u.Used != testBudget || u.Uses[Bodies] != testBudget {
		t.Errorf("%+v", u)
	}
	for i := range small {
		small[i].Close()
	}
	big.Close()
	if u := m.Usage(); u.Used != 0 || u.Uses[Bodies] != 0 {
		t.Errorf("after all was given back: %+v", u)
	}
}

func TestEachUseHasItsPartOfTheBudget(t *testing.T) {
	for use, eighths := range map[Use]int{
		Bodies: 6, Answers: 4, Connections: 4, Deliveries: 4, Forwards: 4, Ephemeral: 2, Reads: 2, ReadAhead: 1, Batches: 2,
	} {
		m := NewMemory(testBudget)
		s, small := m.Share(use), m.Share(use)
		if s.Most() != eighths<<19 || !s.Try(eighths<<19) || s.Try(1) {
			t.Errorf("%v may not take %d eighths, or takes more", use, eighths)
		}
		if got := small.Try(1); got != (use == Bodies) {
			t.Errorf("%v: a small share beyond: %v", use, got)
		}
		if other := m.Share(Bodies); !other.Try(1) {
			t.Errorf("%v takes all that there is", use)
		}
	}
}

func TestTakeWaitsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(testBudget)
		first := m.Share(Bodies)
		if err := first.Reserve(t.Context(), 3<<20); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var order []int
		var running sync.WaitGroup
		for i, n := range []int{2 << 20, 1 << 20, 1 << 20} {
			running.Go(func() {
				s := m.Share(Bodies)
				if err := s.Reserve(t.Context(), n); err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				s.Close()
			})
			synctest.Wait()
		}
		if u := m.Usage(); u.Waiting != 3 || u.Waited != 3 || !m.Pressed() {
			t.Errorf("%+v", u)
		}
		first.Give(1 << 20) // room for the second, but the first comes first
		synctest.Wait()
		if len(order) > 0 {
			t.Errorf("%v was served before its turn", order)
		}
		hurried := m.Share(Bodies)
		if hurried.Try(1 << 20) {
			t.Error("a Try goes before those who wait")
		}
		first.Give(1 << 20)
		synctest.Wait()
		running.Wait()
		if !slices.Equal(order, []int{0, 1, 2}) && !slices.Equal(order, []int{0, 2, 1}) {
			t.Errorf("served in the order %v", order)
		}
		first.Close()
		if u := m.Usage(); u.Used != 0 || u.Waiting != 0 || u.Refused != 0 {
			t.Errorf("%+v", u)
		}
	})
}

func TestTakeIsRefusedWhenNothingIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(testBudget)
		full := m.Share(Bodies)
		if !full.Try(3 << 20) {
			t.Fatal("no room")
		}
		began := time.Now()
		s := m.Share(Bodies)
		if err := s.Reserve(t.Context(), 1<<20); !errors.Is(err, failure.NoMemory) {
			t.Error(err)
		}
		if waited := time.Since(began); waited != MemoryWait {
			t.Errorf("it waited for %v", waited)
		}
		ctx, cancel := context.WithTimeout(t.Context(), MemoryWait/2)
		defer cancel()
		if err := s.Reserve(ctx, 1<<20); !errors.Is(err, failure.NoMemory) {
			t.Error(err)
		}
		if waited := time.Since(began); waited != MemoryWait+MemoryWait/2 {
			t.Errorf("it waited beyond its context, %v in all", waited)
		}
		if err := s.Reserve(t.Context(), 3<<20+1); !errors.Is(err, failure.NoMemory) || time.Since(began) != MemoryWait+MemoryWait/2 {
			t.Errorf("%v: what never has room was waited for", err)
		}
		if u := m.Usage(); u.Refused != 3 || u.Waiting != 0 || s.Held() != 0 {
			t.Errorf("%+v, %d held", u, s.Held())
		}
	})
}

// A claim that is repeated until there is memory was counted as a refusal each second.
func TestAwaitedMemoryIsNoRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(testBudget)
		full := m.Share(Bodies)
		if !full.Try(3 << 20) {
			t.Fatal("no room")
		}
		began := time.Now()
		time.AfterFunc(5*MemoryWait/2, full.Close)
		s := m.Share(Bodies)
		if err := s.Await(t.Context(), 1<<20); err != nil || time.Since(began) != 5*MemoryWait/2 || s.Held() != 1<<20 {
			t.Errorf("%v after %v, %d held", err, time.Since(began), s.Held())
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*MemoryWait/2)
		defer cancel()
		other := m.Share(Bodies)
		if err := other.Await(ctx, 3<<20); !errors.Is(err, failure.NoMemory) || ctx.Err() == nil {
			t.Errorf("%v, though there was no memory", err)
		}
		if err := other.Await(t.Context(), 3<<20+1); !errors.Is(err, failure.NoMemory) {
			t.Errorf("%v: what never has room was waited for", err)
		}
		if u := m.Usage(); u.Refused != 0 || u.Waiting != 0 || other.Held() != 0 {
			t.Errorf("%+v, %d held", u, other.Held())
		}
	})
}

func TestSmallTakesPassWaitingLargeOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(testBudget)
		full := m.Share(Bodies)
		if !full.Try(3 << 20) {
			t.Fatal("no room")
		}
		go func() {
			s := m.Share(Bodies)
			_ = s.Reserve(t.Context(), 1<<20) // refused
		}()
		synctest.Wait()
		s := m.Share(Bodies)
		if err := s.Reserve(t.Context(), SmallShare); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		time.Sleep(2 * MemoryWait) // virtual time
	})
}

func TestWithoutBudgetEverythingIsGranted(t *testing.T) {
	var m *Memory
	s := m.Share(Bodies)
	if err := s.Reserve(t.Context(), 1<<40); err != nil || !s.Try(1<<40) || s.Held() != 2<<40 || m.Pressed() {
		t.Error(err)
	}
	s.Close()
	if s.Held() != 0 {
		t.Error("it holds something after Close")
	}
}

func TestMemoryAddsUpUnderConcurrentUse(t *testing.T) {
	seed := testrand.Seed(t)
	m := NewMemory(1 << 20)
	var running sync.WaitGroup
	for g := range 8 {
		running.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(g)))
			s := m.Share(Use(r.IntN(int(UseCount))))
			for range 2000 {
				n := r.IntN(100 << 10)
				switch r.IntN(3) {
				case 0:
					s.Try(n)
				case 1:
					s.Give(n)
				case 2:
					ctx, cancel := context.WithCancel(context.Background())
					cancel()
					_ = s.Reserve(ctx, n) // whether refused or not
				}
				if u := m.Usage(); u.Used < 0 || u.Used > u.Limit {
					t.Errorf("%+v", u)
					return
				}
			}
			s.Close()
		})
	}
	running.Wait()
	if u := m.Usage(); u.Used != 0 || u.Waiting != 0 || u.Uses != ([UseCount]int64{}) {
		t.Errorf("%+v", u)
	}
}

func TestCacheMemoryIsReclaimedFirst(t *testing.T) {
	m := NewMemory(testBudget)
	cached := m.Share(Reads)
	m.OnWait(cached.Close)
	fill := func() {
		t.Helper()
		if !cached.Try(1 << 20) {
			t.Fatal("a quarter is refused")
		}
		if cached.Try(1) || cached.Held() != 1<<20 {
			t.Fatal("what is cached grows at its own cost")
		}
	}
	fill()
	s := m.Share(Bodies)
	if !s.Try(3<<20) || cached.Held() != 0 {
		t.Errorf("%d cached bytes are in the way of a Try", cached.Held())
	}
	s.Close()
	fill()
	if err := s.Reserve(t.Context(), 3<<20); err != nil || cached.Held() != 0 {
		t.Errorf("%d cached bytes are in the way of a Take: %v", cached.Held(), err)
	}
}

// TestOpenPartitionsAreInTheBudget: up to their part of it.
func TestOpenPartitionsAreInTheBudget(t *testing.T) {
	m := NewMemory(8 << 20)
	for _, tt := range []struct {
		open int
		want int64
	}{{0, 0}, {100, 100 * PartitionCost}, {MostPartitions(8 << 20), 4 << 20}, {1 << 20, 4 << 20}, {1, PartitionCost}} {
		m.Occupy(tt.open)
		if u := m.Usage(); u.Uses[Partitions] != tt.want || u.Used != tt.want {
			t.Errorf("%d: %d of %d bytes", tt.open, u.Uses[Partitions], u.Used)
		}
	}
	m.Occupy(1 << 20)
	body := m.Share(Bodies)
	if body.Try(4<<20) || !body.Try(2<<20) {
		t.Error("a body does not get what partitions leave")
	}
	(*Memory)(nil).Occupy(1)
}
