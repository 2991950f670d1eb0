package coord_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/coord/replication"
	"github.com/brokerd/brokerd/pkg/meta"
)

// TestOutOfSyncReplicaIsCopiedAtTheRate: it gets its missing entries at the allowed
// rate, and then joins. Meanwhile publishes continue, and determine the rate.
func TestOutOfSyncReplicaIsCopiedAtTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, lacks = 4 << 20, 40 << 20
		catchUp := replication.NewCatchUp(rate)
		c := newCatchUpCluster(t, catchUp)
		c.net.Kill("c")
		term := c.elect("a", "a", "b", "c")
		text := strings.Repeat("x", 256<<10)
		for range lacks / len(text) {
			if err := within(time.Second, put(term, text)); err != nil {
				t.Fatal(err)
			}
		}
		if _, copying := catchUp.Rate(time.Now()); copying || catchUp.Copying() {
			t.Error("nothing is copied yet")
		}
		r := c.nodes["c"].replica
		c.net.Serve("c", func(_ meta.NodeID, kind uint8, p []byte, reply func([]byte)) { r.Handle(nil, kind, p, reply) })
		began := time.Now()
		for !slices.Contains(c.isr(), "c") && time.Since(began) < time.Minute {
			if err := within(time.Second, put(term, "m")); err != nil {
				t.Fatal(err)
			}
			tick(term, 100*time.Millisecond)
		}
		if took := time.Since(began); took < 9*time.Second || took > 20*time.Second {
			t.Errorf("%d bytes took %v until the replica joined", lacks, took)
		}
		if !catchUp.Copying() {
			t.Error("commits were of no interest while it was copied")
		}
		tick(term, 3*time.Second)
		if err := within(time.Second, put(term, "m")); err != nil {
			t.Fatal(err)
		}
		if catchUp.Copying() {
			t.Error("commits are still of interest when nothing is copied")
		}
		c.close()
	})
}
