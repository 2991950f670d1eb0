package complaint

import (
	"testing"
	"time"
)

func TestRareChoosesAFew(t *testing.T) {
	r := Rare[int]{Every: time.Hour, Most: 20}
	now, chosen := time.Now(), 0
	for i := range 3 * r.Most {
		for range 2 {
			if r.IsNew(i, now.Add(time.Duration(i)*time.Second)) {
				chosen++
			}
		}
	}
	if chosen != r.Most {
		t.Errorf("%d chosen", chosen)
	}
	if r.IsNew(0, now.Add(r.Every-1)) || !r.IsNew(0, now.Add(r.Every)) {
		t.Error("a kind is not chosen again exactly after the interval")
	}
}
