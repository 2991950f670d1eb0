package broker

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/deadletter"
	"github.com/brokerd/brokerd/pkg/flow"
)

// Three nodes lead one partition each, and all of them get messages. Every node reports
// the sums, and that the channel does not move while messages wait.
func TestRatesAndStallsCoverTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newGovernedLan(t, "n1", "n2", "n3")
		ctx := t.Context()
		l.spread("t", "n1", "n2", "n3")
		for _, name := range []string{"c", deadletter.Channel} { // dead letters wait for an operator
			if err := l.at("n1").Directory.CreateChannel(ctx, "t", name, false); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		rates := func() (int64, flow.Rates) {
			t.Helper()
			s := l.at("n2").Contents.ClusterStats(ctx, "t", "c", false)[0].Channels[0]
			return s.Depth, s.Rates
		}
		stalled := func() string {
			t.Helper()
			h := l.at("n3").Operator.ClusterHealth(ctx)
			if !h.Healthy || h.Degraded {
				t.Errorf("what consumers do makes the cluster %+v", h)
			}
			for _, r := range h.Reasons {
				if r.Code == "channel_stalled" && r.Count == 1 {
					return r.What
				}
			}
			return ""
		}
		for range 60 {
			for i := range 3 {
				l.mustPut("t", i, "m")
			}
			time.Sleep(time.Second)
		}
		if depth, r := rates(); depth != 180 || math.Abs(r.In-3) > 0.3 || r.Out != 0 || r.InLong < 2.5 {
			t.Errorf("%d messages, %+v", depth, r)
		}
		time.Sleep(flow.StallAfter - time.Since(began) - flow.Every)
		if what := stalled(); what != "" {
			t.Errorf("too early: %s", what)
		}
		time.Sleep(3 * flow.Every)
		if what := stalled(); !strings.Contains(what, "t/c (180 ready, 10m") {
			t.Errorf("stalled: %q", what)
		}
		// It moves in every partition: it no longer counts as stalled.
		for i := range 3 {
			c := l.subscribe("t", "c", i)
			if err := c.Finish(c.takeSome(1)[0].ID); err != nil {
				t.Fatal(err)
			}
			c.Close()
		}
		time.Sleep(2 * flow.Every)
		if what := stalled(); what != "" {
			t.Errorf("though it moves: %s", what)
		}
		if depth, r := rates(); depth != 177 || math.Abs(r.Out-3./60) > 0.01 {
			t.Errorf("%d messages, %+v", depth, r)
		}
		// A paused channel does not count as stalled.
		if err := l.at("n1").Contents.PauseChannel(ctx, "t", "c", true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * flow.StallAfter)
		if what := stalled(); what != "" {
			t.Errorf("though it is paused: %s", what)
		}
	})
}
