package operate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/flow"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

// TestTwoVotersTolerateNoFailure checks the health of clusters of one to three voters that are all
// up.
func TestTwoVotersTolerateNoFailure(t *testing.T) {
	for voters := 1; voters <= 3; voters++ {
		var c raftstore.Configuration
		for i := range voters {
			c.Members = append(c.Members, raftstore.Member{ID: meta.NodeID(fmt.Sprint("n", i)), Voter: true})
		}
		f := health.NewFindings()
		noteAgreement(f, c, func(meta.NodeID) bool { return true })
		h := f.Report()
		said := len(h.Reasons) == 1 && h.Reasons[0].Code == "two_voters"
		if !h.Healthy || h.Degraded || said != (voters == 2) {
			t.Errorf("%d voters: %+v", voters, h)
		}
	}
}

func TestHealthSumsLeadersReportsOfAChannel(t *testing.T) {
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
