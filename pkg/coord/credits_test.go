package coord_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/limit"
)

// TestTermsOfANodeShareTheCreditOfANode: the unanswered requests of all partitions to
// one other node are limited together, and for each node separately.
func TestTermsOfANodeShareTheCreditOfANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sizes := limit.Of(1 << 20)
		credits := coord.NewCredits(sizes)
		used := func(node string) int {
			n, _ := credits.To(three[map[string]int{"b": 1, "c": 2}[node]]).Usage()
			return n
		}
		var all []*cluster
		before := 0
		for n := range 10 {
			c := newSharingCluster(t, sizes, nil, credits)
			all = append(all, c)
			term := c.elect("a", three...)
			time.Sleep(100 * time.Millisecond)
			c.net.SetCut("a", "b", true)
			go flood(term, 1000)
			time.Sleep(100 * time.Millisecond)
			now := used("b")
			if now <= before && now < sizes.Pair/2 || now >= sizes.Pair+sizes.Frame {
				t.Errorf("after partition %d, %d bytes of %d are in use, and %d before it", n, now, sizes.Pair, before)
			}
			if before = now; used("c") != 0 {
				t.Errorf("%d bytes are in use to a node that answers", used("c"))
			}
		}
		for _, c := range all {
			c.net.SetCut("a", "b", false)
		}
		time.Sleep(time.Minute)
		if used("b")+used("c") != 0 {
			t.Errorf("%d bytes are in use when all is answered", used("b")+used("c"))
		}
		for _, c := range all {
			c.close()
		}
	})
}
