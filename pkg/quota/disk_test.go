package quota

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/topic"
)

func TestPartitionLimitIsItsShare(t *testing.T) {
	messages := []topic.Message{{Body: make([]byte, 100)}, {Body: make([]byte, 100)}}
	n := int64(topic.StoredSize(messages))
	for _, c := range []struct {
		name    string
		config  meta.TopicConfig
		stored  int64
		told    bool
		refused bool
	}{
		{name: "no maximum", config: meta.TopicConfig{Partitions: 2}, stored: 1 << 50},
		{name: "room", config: meta.TopicConfig{Partitions: 2, MaxBytes: 20 * n}, stored: 9 * n},
		{name: "none", config: meta.TopicConfig{Partitions: 2, MaxBytes: 20 * n}, stored: 9*n + 1, told: true, refused: true},
		{name: "the oldest go", config: meta.TopicConfig{Partitions: 2, MaxBytes: 20 * n, OnFull: meta.OnFullDrop}, stored: 99 * n, told: true},
	} {
		full := make(chan struct{}, 1)
		var d Disk
		d.Tells(full)
		err := d.Reserve(&c.config, c.stored, messages)
		if (err != nil) != c.refused || err != nil && (!errors.Is(err, failure.TopicFull) || fate.Of(err) != fate.Refused) {
			t.Errorf("%s: %v", c.name, err)
		}
		if told := len(full) == 1; told != c.told {
			t.Errorf("%s: told %v", c.name, told)
		}
		want := Counts{}
		if c.refused {
			want.Refused = 2
		}
		if size := d.RefusedSize(time.Now()); (size == n) != c.refused || c.refused && !NearlyFull(c.stored, c.config.Quota(), size) {
			t.Errorf("%s: refused %d bytes", c.name, size)
		}
		if got := d.Counts(); got != want || d.Full(time.Now()) != c.refused {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// A batch may be larger than a tenth of the share: it is refused although the partition is not nearly full.
func TestPartitionWithoutRoomForABatchIsNearlyFull(t *testing.T) {
	for _, x := range []struct {
		bytes, share, size int64
		want               bool
	}{{89, 100, 0, false}, {90, 100, 0, true}, {50, 100, 50, false}, {51, 100, 50, true}, {1 << 40, 0, 1 << 20, false}} {
		if got := NearlyFull(x.bytes, x.share, x.size); got != x.want {
			t.Errorf("%+v: %v", x, got)
		}
	}
}

func TestFullTopicRequestsRetentionOccasionally(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := make(chan struct{}, 1)
		var d Disk
		d.Tells(full)
		config := meta.TopicConfig{Partitions: 1, MaxBytes: 10}
		told, began := 0, time.Now()
		for range 30 {
			if err := d.Reserve(&config, 10, []topic.Message{{Body: []byte("x")}}); !errors.Is(err, failure.TopicFull) {
				t.Fatal(err)
			}
			select {
			case <-full:
				told++
			default:
			}
			time.Sleep(tellEvery / 10)
		}
		if told != 3 {
			t.Errorf("told %d times in three intervals", told)
		}
		if since := d.FullSince(time.Now()); !since.Equal(began) {
			t.Errorf("full since %v, not since %v", since, began)
		}
		time.Sleep(Recently)
		if since := d.FullSince(time.Now()); !since.IsZero() {
			t.Errorf("full since %v, though nothing was refused recently", since)
		}
		if d.Full(time.Now()) {
			t.Error("it is full long after the last refusal")
		}
	})
}

// TestLogIsReducedToTheSmallerBound: a topic that drops its oldest messages is reduced to its share, also if retention
// would keep more.
func TestLogIsReducedToTheSmallerBound(t *testing.T) {
	for _, c := range []struct {
		max, retention int64
		onFull         meta.OnFull
		limit, share   int64
	}{
		{0, 0, meta.OnFullReject, 0, 0},
		{0, 1000, meta.OnFullDrop, 1000, 0},
		{100, 0, meta.OnFullDrop, 100, 100},
		{100, 1000, meta.OnFullDrop, 100, 100},
		{100, 50, meta.OnFullDrop, 50, 100},
		{100, 1000, meta.OnFullReject, 1000, 100},
		{100, 0, meta.OnFullReject, 0, 100},
	} {
		config := &meta.TopicConfig{Partitions: 1, MaxBytes: c.max, RetentionBytes: c.retention, OnFull: c.onFull}
		if limit, share := Bounds(config); limit != c.limit || share != c.share {
			t.Errorf("%+v: limit %d, share %d", c, limit, share)
		}
	}
}
