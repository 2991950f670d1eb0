package broker

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/flow"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/meta"
)

// Three nodes lead a partition each, and messages come to all of them. Every node tells
// the sums, and that the channel does not move while messages wait.
func TestRatesAndStallsAreTheClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newGovernedLan(t, "n1", "n2", "n3")
		ctx := t.Context()
		l.spread("t", "n1", "n2", "n3")
		if err := l.at("n1").CreateChannel(ctx, "t", "c", false); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		rates := func() (int64, flow.Rates) {
			t.Helper()
			s := l.at("n2").ClusterStats(ctx, "t", "c", false)[0].Channels[0]
			return s.Depth, s.Rates
		}
		stalled := func() string {
			t.Helper()
			h := l.at("n3").ClusterHealth(ctx)
			if !h.Healthy || h.Degraded {
				t.Errorf("what consumers do makes the cluster %+v", h)
			}
			for _, r := range h.Reasons {
				if r.Code == flowStalled && r.Count == 1 {
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
		// It moves in every partition: it is no longer said to be stalled.
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
		// A pause is wanted.
		if err := l.at("n1").PauseChannel(ctx, "t", "c", true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * flow.StallAfter)
		if what := stalled(); what != "" {
			t.Errorf("though it is paused: %s", what)
		}
	})
}

func TestHealthAddsUpWhatLeadersSayOfAChannel(t *testing.T) {
	grows := flow.Rates{In: 50, InLong: 50}
	f := health.NewFindings()
	noteFlow(f, map[meta.NodeID][]flow.Suspect{
		"n1": {{Name: "t/stalled", Depth: 4, Stalled: 11 * time.Minute}, {Name: "t/small", Depth: 4000, Rates: grows}, {Name: "t/grown", Depth: 9000, Rates: grows}},
		"n2": {{Name: "t/stalled", Depth: 3, Stalled: 12 * time.Minute}, {Name: "t/grown", Depth: 9000, Rates: grows}, {Name: "t/well", Depth: 1}},
	})
	h := f.Report()
	if !h.Healthy || h.Degraded || len(h.Reasons) != 2 {
		t.Fatalf("%+v", h)
	}
	if r := h.Reasons[0]; r.Code != flowGrowing || r.Count != 1 || !strings.HasSuffix(r.What, ": t/grown (18000 ready, 100/s in, 0/s out)") {
		t.Errorf("%+v", r)
	}
	if r := h.Reasons[1]; r.Code != flowStalled || r.Count != 1 || !strings.HasSuffix(r.What, ": t/stalled (7 ready, 12m)") {
		t.Errorf("%+v", r)
	}
}
