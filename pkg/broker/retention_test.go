package broker

import (
	"testing"
	"time"
)

// A busy log is noted when there is much to note, or it was long ago; an idle one is
// noted whole.
func TestBusyLogsAreNotedSeldom(t *testing.T) {
	hp := &hostedPartition{}
	at := time.Now()
	for i, x := range []struct {
		after time.Duration
		idle  bool
		whole bool
	}{
		{0, false, true}, // it is not known when it was noted
		{DefaultRetentionInterval, false, false},
		{DefaultRetentionInterval, true, true},
		{noteAge - 1, false, false},
		{1, false, true},
		{noteAge - 1, false, false},
	} {
		at = at.Add(x.after)
		hp.idle = x.idle
		want := int64(noteBytes)
		if x.whole {
			want = 0
		}
		if got := hp.leastNote(at); got != want {
			t.Errorf("round %d: it is noted from %d bytes on, want %d", i, got, want)
		}
	}
}
