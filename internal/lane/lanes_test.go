package lane

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var errEnded = errors.New("ended")

func TestRunsOfOneLaneAreSequential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var here, most, runs atomic.Int32
		all := New(errEnded, func(key string) (int32, error) {
			if key == "b" {
				return 0, nil
			}
			most.Store(max(most.Load(), here.Add(1)))
			time.Sleep(time.Second)
			here.Add(-1)
			return runs.Add(1), nil
		})
		began := time.Now()
		first := all.Ask("a")
		synctest.Wait()
		second, third := all.Ask("a"), all.Ask("a") // the current run may have read earlier values
		if _, err := all.Ask("b").Wait(); err != nil || time.Since(began) != 0 {
			t.Errorf("another lane's run ended after %v: %v", time.Since(began), err)
		}
		for f, want := range map[*Outcome[int32]]int32{first: 1, second: 2, third: 2} {
			if n, err := f.Wait(); n != want || err != nil {
				t.Errorf("got the result of run %d, %v; want that of run %d", n, err, want)
			}
		}
		all.Ask("a")
		all.Close()
		if took := time.Since(began); took != 3*time.Second || most.Load() != 1 || runs.Load() != 3 {
			t.Errorf("%d runs took %v, %d at a time", runs.Load(), took, most.Load())
		}
		if _, err := all.Ask("a").Wait(); !errors.Is(err, errEnded) {
			t.Errorf("a run after the end: %v", err)
		}
		if len(all.busy) != 0 {
			t.Errorf("%d lanes are remembered", len(all.busy))
		}
	})
}
