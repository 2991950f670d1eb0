package operate

import (
	"strings"
	"testing"
	"time"
)

func TestClockSkewIsReported(t *testing.T) {
	for ahead, text := range map[time.Duration]string{
		0: "", 499 * time.Millisecond: "", -499 * time.Millisecond: "",
		500 * time.Millisecond: "500ms ahead of", -500 * time.Millisecond: "500ms behind", -2 * time.Hour: "2h behind", 72 * time.Hour: "3d ahead of",
	} {
		r, some := skewed(ahead)
		if some != (text != "") || r.Code != "clock_skew" || !strings.Contains(r.What, text) {
			t.Errorf("%v: %v %+v", ahead, some, r)
		}
	}
}
