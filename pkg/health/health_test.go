package health_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/pkg/health"
)

func TestReasonNamesAFewAndCountsAll(t *testing.T) {
	f := health.NewFindings()
	for i := range 5 {
		f.Add("nodes_down", "nodes do not answer", fmt.Sprint("n", i))
	}
	h := f.Report()
	want := []health.Reason{{Code: "nodes_down", Count: 5, What: "nodes do not answer: n0 n1 n2 and 2 more"}}
	if diff := cmp.Diff(want, h.Reasons); diff != "" || !h.Degraded || h.Healthy {
		t.Errorf("%+v\n%s", h, diff)
	}
}

func TestWorstReasonDecides(t *testing.T) {
	for _, test := range []struct {
		codes             []string
		healthy, degraded bool
	}{
		{nil, true, false},
		{[]string{"nodes_draining", "two_voters"}, true, false},
		{[]string{"nodes_draining", "nodes_down"}, false, true},
		{[]string{"nodes_down", "disk_full"}, false, false},
		{[]string{"a code that is not in the table"}, false, false},
	} {
		f := health.NewFindings()
		for _, code := range test.codes {
			f.Add(code, "what", "name")
			if !f.Has(code) || f.Has("another") {
				t.Errorf("%v: has %q: %t, another: %t", test.codes, code, f.Has(code), f.Has("another"))
			}
		}
		if h := f.Report(); h.Healthy != test.healthy || h.Degraded != test.degraded || len(h.Reasons) != len(test.codes) {
			t.Errorf("%v: %+v", test.codes, h)
		}
	}
}
