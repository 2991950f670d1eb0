package limit

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestDropsShareTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDrops(1 << 20)
		began := time.Now()
		var running sync.WaitGroup
		for range 8 {
			running.Go(func() {
				for range 16 {
					if !d.Wait(16<<10, began.Add(time.Hour)) {
						t.Error("refused before the deadline")
					}
				}
			})
		}
		running.Wait()
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("2 MiB at 1 MiB/s took %v", took)
		}
		time.Sleep(time.Minute)
		began = time.Now()
		if !d.Wait(16<<10, began.Add(time.Second)) || time.Since(began) != time.Second/64 {
			t.Errorf("after a rest one waits %v", time.Since(began))
		}
		began = time.Now()
		if d.Wait(16<<10, began.Add(time.Second/128)) || !time.Now().Equal(began) {
			t.Error("one whose deadline comes first waits, or may read more")
		}
		if !d.Wait(0, began.Add(time.Hour)) || time.Since(began) != time.Second/64 {
			t.Errorf("what was read before a refusal does not count: the next waits %v", time.Since(began))
		}
		if none := (*Drops)(nil); !none.Wait(1<<30, time.Time{}) {
			t.Error("without a limit one is refused")
		}
	})
}
