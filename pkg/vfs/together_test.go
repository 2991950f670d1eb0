package vfs

import "testing"

// way records how many times it is held, and the maximum.
type way struct{ holds, most int }

func (w *way) Hold()    { w.holds++; w.most = max(w.most, w.holds) }
func (w *way) Release() { w.holds-- }

func TestGatheringHoldsEachConnectionOnce(t *testing.T) {
	var g Gathering
	var ways [3]way
	for round := range 3 {
		for i := range 10 {
			g.Hold(nil)
			g.Hold(&ways[i%2])
		}
		for i, w := range ways {
			if want := min(1, 2-i); w.holds != max(0, want) {
				t.Errorf("round %d: way %d is held %d times", round, i, w.holds)
			}
		}
		g.Release()
		for i, w := range ways {
			if w.holds != 0 || w.most > 1 {
				t.Errorf("round %d: way %d is held %d times behind the release, %d at the most", round, i, w.holds, w.most)
			}
		}
	}
}
