package admin

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
)

type fakeTrash struct{ *fake }

func (f fakeTrash) Deleted() []*meta.Deleted {
	return []*meta.Deleted{{
		Index: 9, At: time.Date(2026, 11, 25, 3, 0, 0, 0, time.UTC).UnixNano(),
		Topic: &meta.Topic{
			Name: "gone", Incarnation: 7, Config: meta.TopicConfig{Partitions: 2, Replicas: 2, RetentionTrash: time.Hour},
			Partitions: []meta.Partition{{Replicas: []meta.NodeID{"n2", "n1"}}, {Replicas: []meta.NodeID{"n1", "n3"}}},
			Channels:   map[string]*meta.Channel{"mail": {Name: "mail"}, "bill": {Name: "bill"}},
		},
	}}
}

func (f fakeTrash) Restore(_ context.Context, c meta.RestoreTopic) (*meta.Topic, error) {
	name, in := c.Name, c.Incarnation
	if err := f.locked(fmt.Sprintf("restore %s %d", name, in)); err != nil {
		return nil, err
	}
	if name != "gone" || in != 0 && in != 7 {
		return nil, fmt.Errorf("topic %s: %w", name, failure.NotInTrash)
	}
	if _, err := f.Topic(name); err == nil && c.Replaces == 0 {
		return nil, failure.NameTaken
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.create(name, meta.TopicConfig{}.WithDefaults(1, false))
	return f.topics[name], nil
}

func (f fakeTrash) Purge(_ context.Context, name string, in meta.Incarnation) error {
	return f.locked(fmt.Sprintf("purge %s %d", name, in))
}

func TestDeletedTopicsAreListedAndRestored(t *testing.T) {
	f := orders()
	c := clientOf(t, f)
	got, err := c.Trash.Topics(t.Context())
	want := api.DeletedTopic{
		Name: "gone", Incarnation: 7, DeletedAt: time.Date(2026, 11, 25, 3, 0, 0, 0, time.UTC), KeptUntil: time.Date(2026, 11, 25, 4, 0, 0, 0, time.UTC),
		Partitions: 2, Replicas: 2, Channels: []string{"bill", "mail"}, Nodes: []string{"n1", "n2", "n3"},
	}
	if err != nil || len(got) != 1 || fmt.Sprint(got[0]) != fmt.Sprint(want) {
		t.Fatalf("%+v, %v, want %+v", got, err, want)
	}
	if _, err := c.Trash.Restore(t.Context(), "never", api.RestoreTopic{}); api.CodeOf(err) != failure.NotFound || !strings.Contains(err.Error(), "not in the trash") {
		t.Errorf("what was never there: %v", err)
	}
	if _, err := c.Trash.Restore(t.Context(), "gone", api.RestoreTopic{Incarnation: 8}); api.CodeOf(err) != failure.NotFound {
		t.Errorf("another incarnation: %v", err)
	}
	if topic, err := c.Trash.Restore(t.Context(), "gone", api.RestoreTopic{Incarnation: 7}); err != nil || topic.Name != "gone" {
		t.Errorf("%+v, %v", topic, err)
	}
	if _, err := c.Trash.Restore(t.Context(), "gone", api.RestoreTopic{}); api.CodeOf(err) != failure.Exists {
		t.Errorf("a second time: %v", err)
	}
	if _, err := c.Trash.Restore(t.Context(), "gone", api.RestoreTopic{Replaces: 9}); api.CodeOf(err) != failure.Invalid {
		t.Errorf("in place of another, without an incarnation: %v", err)
	}
	if _, err := c.Trash.Restore(t.Context(), "gone", api.RestoreTopic{Incarnation: 7, Replaces: 9}); err != nil {
		t.Errorf("in place of another: %v", err)
	}
}

func TestPermanentDeletions(t *testing.T) {
	f := orders()
	h := serverOf(t, f).Handler()
	for _, test := range []struct {
		target string
		status int
		call   string // "": none
	}{
		{"/v1/topics/gone?purge=true", 204, "purge gone 0"},
		{"/v1/topics/gone?purge=1&incarnation=7", 204, "purge gone 7"},
		{"/v1/topics?topic=..&purge=true", 204, "purge .. 0"},
		{"/v1/topics/orders?purge=maybe", 400, ""},
		{"/v1/topics/orders?incarnation=7", 400, ""},
		{"/v1/topics/orders?purge=true&incarnation=x", 400, ""},
		{"/v1/topics/b%20d?purge=true", 400, ""},
		{"/v1/topics/orders?purge=false", 204, "delete orders"},
	} {
		f.mu.Lock()
		f.calls = nil
		f.mu.Unlock()
		w := ask(h, http.MethodDelete, test.target, "")
		f.mu.Lock()
		calls := slices.Clone(f.calls)
		f.mu.Unlock()
		if w.Code != test.status || strings.Join(calls, ";") != test.call {
			t.Errorf("%s: %d %s, calls %q, want %d, %q", test.target, w.Code, w.Body, calls, test.status, test.call)
		}
	}
}

func TestTrashRetention(t *testing.T) {
	f := orders()
	h := serverOf(t, f).Handler()
	for _, test := range []struct{ patch, want string }{
		{`{}`, `"auto_retention_trash":true,"retention_trash":"24h0m0s","retention_trash_ms":86400000`},
		{`{"retention_trash":"1h"}`, `"auto_retention_trash":false,"retention_trash":"1h0m0s","retention_trash_ms":3600000`},
		{`{"retention_trash_ms":0}`, `"auto_retention_trash":false,"retention_trash":"0s","retention_trash_ms":0`},
		{`{"retention_trash":"-1s"}`, `retention_trash must not be negative`},
		{`{"retention_trash_ms":-9223372036854775807}`, `retention_trash_ms -9223372036854775807 is not between 0 and 9223372036854`},
		{`{"retention_trash":"721h"}`, `retention of 721h0m0s in the trash`},
	} {
		if w := ask(h, http.MethodPatch, "/v1/topics/orders", test.patch); !strings.Contains(w.Body.String(), test.want) {
			t.Errorf("%s: %s, want %s", test.patch, w.Body, test.want)
		}
	}
}
