package coord

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/brokerd/brokerd/pkg/meta"
)

// TestFinishIsNotSharedBelowMinISR: positions may be lost with the replicas that leave, and are then delivered again; a
// finish of an ordered channel lets the next message go, and completes only with as many replicas as the topic requires.
func TestFinishIsNotSharedBelowMinISR(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		view := func(version uint64, isr ...meta.NodeID) View {
			v := viewOf(version, isr...)
			v.MinISR = 2
			return v
		}
		term, n2, _ := leadSilently(t, 0, view(1, "n1", "n2"), nil)
		n2.up()
		n2.forget(1)
		var done []string
		note := func(what string) func(error) {
			return func(err error) {
				if err != nil {
					what += ": " + err.Error()
				}
				done = append(done, what)
			}
		}
		expect := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			if !slices.Equal(done, want) {
				t.Errorf("%s: %q are complete, want %q", when, done, want)
			}
		}
		term.ShareAdvance([]byte("finish"), note("finish 1"))
		expect("before n2 has it")
		n2.says(1, 0, 1)
		expect("with both", "finish 1")
		term.Update(view(2, "n1"))
		term.SharePositions([]byte("positions"), note("positions"))
		expect("alone", "finish 1", "positions")
		term.ShareAdvance([]byte("finish"), note("finish 2"))
		term.ShareUpdate([]byte("update"), note("update"))
		expect("a finish alone, and what is behind it", "finish 1", "positions")
		term.Update(view(3, "n1", "n2"))
		n2.forget(2)
		last, _ := term.shares.Last()
		n2.says(2, 0, last)
		expect("with both again", "finish 1", "positions", "finish 2", "update")
	})
}
