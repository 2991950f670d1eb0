package operate

import (
	"strings"
	"testing"
)

func TestJoinAddressesOfAnotherClusterAreReported(t *testing.T) {
	if r, some := apart(nil); some {
		t.Errorf("reported without an address: %+v", r)
	}
	r, some := apart([]string{"a:4152", "b:4152"})
	if !some || r.Code != "join_other_cluster" || r.Count != 2 || !strings.Contains(r.What, "a:4152") {
		t.Errorf("%t, %+v", some, r)
	}
}
