package nsqform

import (
	"testing"
	"time"
)

func TestRecentlyForgets(t *testing.T) {
	start := time.Unix(0, 0)
	r := NewRecently(time.Second)
	for i := range 3 * maxRecent {
		r.Add("t", string(rune(i)), start)
	}
	if len(r.seen) > maxRecent || len(r.ring) > maxRecent {
		t.Errorf("%d and %d are remembered", len(r.seen), len(r.ring))
	}
	r.Add("t", "late", start.Add(time.Second))
	if len(r.seen) != 1 || !r.Has("t", "late", start.Add(1999*time.Millisecond)) || r.Has("t", "late", start.Add(2*time.Second)) {
		t.Errorf("%d are remembered", len(r.seen))
	}
	r.Add("t", "late", start.Add(1500*time.Millisecond))
	r.Add("t", "other", start.Add(2100*time.Millisecond))
	if !r.Has("t", "late", start.Add(2400*time.Millisecond)) {
		t.Error("what was renewed is forgotten")
	}
}
