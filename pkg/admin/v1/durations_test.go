package v1

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/meta"
)

func TestDurationsAreTextOrMilliseconds(t *testing.T) {
	text := func(d time.Duration) *api.Duration { v := api.Duration(d); return &v }
	ms := func(n int64) *int64 { return &n }
	for _, tc := range []struct {
		name    string
		patch   api.ConfigPatch
		want    meta.TopicConfig
		refused bool
	}{
		{"text", api.ConfigPatch{Retention: text(time.Hour)}, meta.TopicConfig{RetentionAge: time.Hour}, false},
		{"milliseconds", api.ConfigPatch{RetentionMS: ms(1500), TTLMS: ms(1)}, meta.TopicConfig{RetentionAge: 1500 * time.Millisecond, TTL: time.Millisecond}, false},
		{"none", api.ConfigPatch{RetentionMS: ms(0)}, meta.TopicConfig{}, false},
		{"both, the same", api.ConfigPatch{DedupWindow: text(time.Minute), DedupWindowMS: ms(60_000)}, meta.TopicConfig{DedupWindow: time.Minute}, false},
		{"both, different", api.ConfigPatch{TTL: text(time.Minute), TTLMS: ms(1)}, meta.TopicConfig{}, true},
		{"negative", api.ConfigPatch{TTLMS: ms(-1)}, meta.TopicConfig{}, true},
		{"too large", api.ConfigPatch{TTLMS: ms(1 << 62)}, meta.TopicConfig{}, true},
		{"a sync interval", api.ConfigPatch{Sync: new(api.Sync), SyncIntervalMS: ms(50)}, meta.TopicConfig{Sync: meta.SyncPolicy{Interval: 50 * time.Millisecond}}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var c meta.TopicConfig
			err := patchConfig(&c, tc.patch)
			if tc.refused != (err != nil) {
				t.Fatal(err)
			}
			if err == nil && c != tc.want {
				t.Errorf("%+v, want %+v", c, tc.want)
			}
		})
	}
}

func TestMillisecondsRoundUp(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		0: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, -1: -1, -time.Millisecond: -1, time.Hour: 3_600_000,
	} {
		if got := api.Milliseconds(d); got != want {
			t.Errorf("%v: %d, want %d", d, got, want)
		}
	}
}
