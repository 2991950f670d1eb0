package host

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
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

// TestRetentionKeepsWhatAnUndoDelivers, of all channels, for a day.
func TestRetentionKeepsWhatAnUndoDelivers(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var s meta.State
	done := func(c meta.Command) {
		t.Helper()
		if err := s.Apply(s.Index()+1, c).Err; err != nil {
			t.Fatal(err)
		}
	}
	done(meta.NodeStarted{Node: meta.Node{ID: "n1"}})
	done(meta.CreateTopic{Name: "t", Config: meta.TopicConfig{}.WithDefaults(1, false), Assignment: [][]meta.NodeID{{"n1"}}})
	save := func(channel string, ago time.Duration, floor seq.Offset) {
		t.Helper()
		done(meta.SavePositions{Saved: meta.Saved{
			At: now.Add(-ago).UnixNano(), Verb: "seek", Topic: "t", Incarnation: s.Topic("t").Incarnation, Channel: channel,
			Partitions: []meta.SavedPartition{{Floor: floor}},
		}})
	}
	expect := func(when string, at time.Time, want seq.Offset, some bool) {
		t.Helper()
		got := undoFloor(&s, s.Topic("t"), 0, at)
		if (got != nil) != some || some && *got != want {
			t.Errorf("%s: %v, want %d, %v", when, got, want, some)
		}
	}
	expect("without a change", now, 0, false)
	save("a", TrashFor+time.Second, 3)
	expect("after a day", now, 0, false)
	save("a", TrashFor-time.Second, 9)
	expect("within a day", now, 9, true)
	save("b", time.Hour, 7)
	expect("of two channels", now, 7, true)
	expect("when only the later one is of the last day", now.Add(time.Minute), 7, true)
	expect("a day later", now.Add(TrashFor), 0, false)
	if got := undoFloor(&s, s.Topic("t"), 1, now); got != nil {
		t.Errorf("another partition: %d", *got)
	}
}
