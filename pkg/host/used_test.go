package host

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestDeletionsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d deletions
		d.add(deletion{"t", "c"}, time.Now())
		time.Sleep(deletedFor - time.Nanosecond)
		if !d.has(deletion{"t", "c"}, time.Now()) || d.has(deletion{"t", ""}, time.Now()) {
			t.Error("forgotten too soon, or something else remembered")
		}
		time.Sleep(time.Nanosecond)
		if d.has(deletion{"t", "c"}, time.Now()) {
			t.Error("remembered for too long")
		}
		for i := range 2 * maxDeletions {
			d.add(deletion{"u", string(rune(i))}, time.Now())
		}
		if n := len(d.at); n != maxDeletions {
			t.Errorf("%d remembered", n)
		}
	})
}
