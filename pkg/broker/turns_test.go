package broker

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestTurnsOfOneTopicComeOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all turns
		var here, most atomic.Int32
		began := time.Now()
		for range 5 {
			go func() {
				end, ok := all.begin("a")
				if !ok {
					t.Error("no turn")
					return
				}
				defer end()
				most.Store(max(most.Load(), here.Add(1)))
				time.Sleep(time.Second)
				here.Add(-1)
			}()
		}
		synctest.Wait()
		end, ok := all.begin("b") // another topic waits for nobody
		if !ok || time.Since(began) != 0 {
			t.Errorf("the other topic's turn came after %v: %v", time.Since(began), ok)
		}
		end()
		all.close()
		if took := time.Since(began); took != 5*time.Second || most.Load() != 1 {
			t.Errorf("five turns took %v, %d at a time", took, most.Load())
		}
		if _, ok := all.begin("a"); ok {
			t.Error("a turn after the end")
		}
		if len(all.taken) != 0 {
			t.Errorf("%d topics are remembered", len(all.taken))
		}
	})
}
