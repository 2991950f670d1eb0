package host

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/meta"
)

// A busy log gets a checkpoint after many appends, or after a long time. An idle log
// gets one that covers all of it.
func TestBusyLogsAreRecordedRarely(t *testing.T) {
	hp := &Held{}
	at := time.Now()
	for i, x := range []struct {
		after time.Duration
		idle  bool
		whole bool
	}{
		{0, false, true}, // it is not known when it was noted
		{DefaultRetentionInterval, false, false},
		{DefaultRetentionInterval, true, true},
		{recordAfter - 1, false, false},
		{1, false, true},
		{recordAfter - 1, false, false},
	} {
		at = at.Add(x.after)
		hp.idle = x.idle
		want := int64(recordAfterBytes)
		if x.whole {
			want = 0
		}
		if got := hp.minUnrecorded(at); got != want {
			t.Errorf("round %d: it is noted from %d bytes on, want %d", i, got, want)
		}
	}
}

func TestFinishedMessagesAreKeptForDedupWindow(t *testing.T) {
	for _, c := range []struct {
		retention, window, least, most time.Duration
	}{
		{time.Hour, 0, time.Hour, time.Hour},
		{0, 10 * time.Minute, 11 * time.Minute, 13 * time.Minute},
		{time.Hour, 10 * time.Minute, time.Hour, time.Hour},
		{time.Hour, 24 * time.Hour, 25 * time.Hour, 28 * time.Hour},
	} {
		if d := keptFor(&meta.TopicConfig{RetentionAge: c.retention, DedupWindow: c.window}); d < c.least || d > c.most {
			t.Errorf("retention %v and window %v: %v", c.retention, c.window, d)
		}
	}
}
