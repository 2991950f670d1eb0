package v1

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/admin/web"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
)

// A trace id is sent as text in addition to the number, which browsers round.
func TestTraceIDsHaveHexText(t *testing.T) {
	const id = 1<<63 + 1
	if p := apiPeeked(operate.Peeked{TraceID: id}); p.TraceID != id || p.TraceIDHex != "8000000000000001" {
		t.Errorf("got %d and %q", p.TraceID, p.TraceIDHex)
	}
	if p := apiPeeked(operate.Peeked{}); p.TraceIDHex != "" {
		t.Errorf("without a trace id: %q", p.TraceIDHex)
	}
	for _, test := range []struct {
		m    api.Message
		want uint64
		ok   bool
	}{
		{api.Message{Text: "a", TraceIDHex: "8000000000000001"}, id, true},
		{api.Message{Text: "a", TraceID: id, TraceIDHex: "8000000000000001"}, id, true},
		{api.Message{Text: "a", TraceID: 1 << 63, TraceIDHex: "8000000000000001"}, 0, false},
		{api.Message{Text: "a", TraceIDHex: "18000000000000001"}, 0, false},
		{api.Message{Text: "a", TraceIDHex: "x"}, 0, false},
	} {
		if m, err := messageOf(test.m, web.Limits{MaxMessage: 10}); (err == nil) != test.ok || test.ok && m.TraceID != test.want {
			t.Errorf("%+v: %d, %v", test.m, m.TraceID, err)
		}
	}
}

func TestPatchChangesOnlyWhatItNames(t *testing.T) {
	ms := func(n int) *api.Duration { d := api.Duration(time.Duration(n) * time.Millisecond); return &d }
	sync := func(s api.Sync) *api.Sync { return &s }
	always, interval := meta.SyncPolicy{Every: 1}, meta.SyncPolicy{Interval: time.Second}
	for _, test := range []struct {
		was   meta.SyncPolicy
		patch api.ConfigPatch
		want  meta.SyncPolicy
	}{
		{always, api.ConfigPatch{}, always},
		{always, api.ConfigPatch{Sync: sync(api.SyncInterval)}, meta.SyncPolicy{Interval: meta.DefaultSyncInterval}},
		{always, api.ConfigPatch{SyncInterval: ms(50)}, meta.SyncPolicy{Interval: 50 * time.Millisecond}},
		{always, api.ConfigPatch{Sync: sync(100)}, meta.SyncPolicy{Every: 100}},
		{always, api.ConfigPatch{Sync: sync(api.SyncAlways), SyncInterval: ms(50)}, always},
		{interval, api.ConfigPatch{Sync: sync(api.SyncAlways)}, always},
		{interval, api.ConfigPatch{Sync: sync(api.SyncInterval)}, interval},
		{interval, api.ConfigPatch{Sync: sync(9)}, meta.SyncPolicy{Every: 9, Interval: time.Second}},
	} {
		c := meta.TopicConfig{Partitions: 3, Sync: test.was}
		if err := patchConfig(&c, test.patch); err != nil {
			t.Fatal(err)
		}
		if c.Sync != test.want || c.Partitions != 3 {
			t.Errorf("%+v became %+v, want %+v", test.was, c.Sync, test.want)
		}
	}
}
