package backups_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/backups"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/backup"
	"github.com/brokerd/brokerd/pkg/brokertest"
	"github.com/brokerd/brokerd/pkg/failure"
)

// hooked sends requests after a hook, which may answer them itself.
type hooked func(*http.Request) *http.Response

func (h hooked) RoundTrip(r *http.Request) (*http.Response, error) {
	if answer := h(r); answer != nil {
		return answer, nil
	}
	return http.DefaultTransport.RoundTrip(r)
}

// meanwhile returns a client with a hook before each of its requests.
func meanwhile(t *testing.T, h hooked, nodes ...*brokertest.Node) *backups.Cluster {
	t.Helper()
	c := clusterOf(t, nodes...)
	var urls []string
	for _, n := range nodes {
		urls = append(urls, n.URL())
	}
	c.Client = must(api.NewClient(api.ClientOptions{Addresses: urls, HTTP: &http.Client{Transport: h}}))(t)
	return c
}

// once calls f before the first request whose path has an end.
func once(end string, f func()) hooked {
	var called atomic.Bool
	return func(r *http.Request) *http.Response {
		if strings.HasSuffix(r.URL.Path, end) && !called.Swap(true) {
			f()
		}
		return nil
	}
}

// nothing is the answer of a leader that knows no message from an offset on.
func nothing(r *http.Request) *http.Response { return answered(r, `{"messages":[]}`) }

func answered(r *http.Request, text string) *http.Response {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(text)), Request: r,
	}
}

// TestChannelsMayBeDeletedDuringABackup: one ended the backup of all topics.
func TestChannelsMayBeDeletedDuringABackup(t *testing.T) {
	t.Parallel()
	ctx, d := t.Context(), backup.In(backup.Dir(t.TempDir()))
	n := brokertest.Start(t)
	c := clusterOf(t, n)
	must(c.Client.CreateTopic(ctx, api.CreateTopic{Name: "t"}))(t)
	for i := range 8 {
		must(c.Client.CreateChannel(ctx, "t", api.CreateChannel{Name: fmt.Sprint("worker", i)}))(t)
	}
	must(c.Client.CreateChannel(ctx, "t", api.CreateChannel{Name: "z"}))(t)
	publish(t, c, "t", 0, numbered(0, 9)...)
	hook := func(r *http.Request) *http.Response { // before it is described, or before its messages are read
		_, of, _ := strings.Cut(r.URL.Path, "/channels/")
		name, what, _ := strings.Cut(of, "/")
		if strings.HasPrefix(name, "worker") && (what == "") == (name == "worker0") {
			_, _ = c.Client.DeleteChannel(ctx, "t", name) // perhaps again
		}
		return nil
	}
	made := must(meanwhile(t, hook, n).Make(ctx, d, backups.Create{}))(t)
	if got := made.Manifest.Topic("t").Channels; len(got) != 1 || got[0].Name != "z" {
		t.Errorf("channels %v", got)
	}
	must(c.Restore(ctx, d, made.Manifest.Topic("t"), "u", 0, false))(t)
	if got := contents(t, c, "u", "z"); len(got) != 9 {
		t.Errorf("%d messages", len(got))
	}
}

// TestTopicsMayBeRecreatedDuringABackup: one ended it. The backup has the new topic.
func TestTopicsMayBeRecreatedDuringABackup(t *testing.T) {
	t.Parallel()
	ctx, d := t.Context(), backup.In(backup.Dir(t.TempDir()))
	n := brokertest.Start(t)
	c := clusterOf(t, n)
	topic := func(from int) {
		must(c.Client.CreateTopic(ctx, api.CreateTopic{Name: "t"}))(t)
		must(c.Client.CreateChannel(ctx, "t", api.CreateChannel{Name: "c"}))(t)
		publish(t, c, "t", 0, numbered(from, from+9)...)
	}
	for _, when := range [][]string{{"/channels/c"}, {"/channels/c/messages"}, {"/channels/c/messages", "/topics/t"}, {"/topics/t/messages"}} {
		topic(0)
		done(t, c.Client.EmptyChannel(ctx, "t", "c"))
		left := when
		hook := func(r *http.Request) *http.Response {
			if len(left) > 0 && strings.HasSuffix(r.URL.Path, left[0]) {
				if left = left[1:]; len(left) == 0 {
					done(t, c.Client.DeleteTopic(ctx, "t"))
					topic(100)
				}
			}
			return nil
		}
		m := must(meanwhile(t, hook, n).Make(ctx, d, backups.Create{}))(t).Manifest
		if id := must(c.Client.Topic(ctx, "t"))(t).FirstID; m.Topic("t").FirstID != id {
			t.Errorf("before %v: first id %s, want %s", when, m.Topic("t").FirstID, id)
		}
		must(c.Restore(ctx, d, m.Topic("t"), "u", 0, false))(t)
		for _, channel := range []string{"", "c"} {
			if was, is := contents(t, c, "t", channel), contents(t, c, "u", channel); !slices.Equal(was, is) {
				t.Errorf("before %v: was %v, is %v", when, was, is)
			}
		}
		done(t, c.Client.DeleteTopic(ctx, "t"))
		done(t, c.Client.DeleteTopic(ctx, "u"))
	}
}

// TestMessagesDeferredDuringABackupStayDeferred: a restore delivered them at once.
func TestMessagesDeferredDuringABackupStayDeferred(t *testing.T) {
	t.Parallel()
	ctx, d := t.Context(), backup.In(backup.Dir(t.TempDir()))
	n := brokertest.Start(t)
	c := clusterOf(t, n)
	must(c.Client.CreateTopic(ctx, api.CreateTopic{Name: "t"}))(t)
	must(c.Client.CreateChannel(ctx, "t", api.CreateChannel{Name: "c"}))(t)
	late := func(text string) { publish(t, c, "t", 0, api.Message{Text: text, DelayMS: time.Hour.Milliseconds()}) }
	late("before")
	publish(t, c, "t", 0, api.Message{Text: "due"})
	hook := once("/channels/c/deferred", func() { late("during"); publish(t, c, "t", 0, api.Message{Text: "also due"}) })
	made := must(meanwhile(t, hook, n).Make(ctx, d, backups.Create{}))(t)
	must(c.Restore(ctx, d, made.Manifest.Topic("t"), "u", 0, false))(t)
	if got := must(c.Client.Channel(ctx, "u", "c"))(t); got.Deferred != 2 || got.Depth != 2 {
		t.Errorf("%d deferred messages and %d others", got.Deferred, got.Depth)
	}
}

// TestHalfRestoredTopicIsNotBackedUp: the backup counted as a complete one of the topic.
func TestHalfRestoredTopicIsNotBackedUp(t *testing.T) {
	t.Parallel()
	ctx, d := t.Context(), backup.In(backup.Dir(t.TempDir()))
	c := clusterOf(t, brokertest.Start(t))
	for _, name := range []string{"half", "whole"} {
		must(c.Client.CreateTopic(ctx, api.CreateTopic{Name: name}))(t)
	}
	must(c.Client.CreateChannel(ctx, "half", api.CreateChannel{Name: backups.Marker}))(t)
	made := must(c.Make(ctx, d, backups.Create{}))(t)
	if m := made.Manifest; m.Topic("half") != nil || m.Topic("whole") == nil || !slices.Equal(made.Restoring, []string{"half"}) {
		t.Errorf("restoring %v, topics %+v", made.Restoring, m.Topics)
	}
}

// TestNothingIsMissingWhenLeadershipMovesDuringABackup: a new leader returns only what it knows to be committed. The
// backup had no more of the messages, and the channels seemed to have finished them.
func TestNothingIsMissingWhenLeadershipMovesDuringABackup(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	nodes := brokertest.Cluster(t, 2)
	c := clusterOf(t, nodes...)
	two := 2
	must(c.Client.CreateTopic(ctx, api.CreateTopic{Name: "t", Config: api.ConfigPatch{Replicas: &two, Partitions: &two}}))(t)
	must(c.Client.CreateChannel(ctx, "t", api.CreateChannel{Name: "c"}))(t)
	for p := range two {
		publish(t, c, "t", p, numbered(0, 2000)...)
	}
	moves := func() {
		for _, n := range nodes {
			if p := must(c.Client.Topic(ctx, "t"))(t).Partitions[0]; p.Leader != n.ID() {
				must(c.Client.Operations.TransferLeader(ctx, "t", 0, api.TransferLeader{To: n.ID()}))(t)
				return
			}
		}
	}
	for _, end := range []string{"/channels/c/messages", "/topics/t/messages"} {
		d := backup.In(backup.Dir(t.TempDir()))
		asked := 0
		hook := func(r *http.Request) *http.Response {
			if !strings.HasSuffix(r.URL.Path, end) || r.URL.Query().Get("partition") != "0" {
				return nil
			}
			if asked++; asked != 2 {
				return nil
			}
			moves()
			return nothing(r)
		}
		m := must(meanwhile(t, hook, nodes...).Make(ctx, d, backups.Create{}))(t).Manifest
		if n, _ := m.Totals(); n != 4000 || asked < 3 {
			t.Errorf("%s: %d messages, %d requests", end, n, asked)
		}
		dry := must(c.Restore(ctx, d, m.Topic("t"), "u", 0, true))(t)
		if dry.Pending != 4000 {
			t.Errorf("%s: %d messages are pending", end, dry.Pending)
		}
	}
}

// TestMessagesPublishedDuringARestoreAreDelivered: channels were moved behind them.
func TestMessagesPublishedDuringARestoreAreDelivered(t *testing.T) {
	t.Parallel()
	ctx, d := t.Context(), backup.In(backup.Dir(t.TempDir()))
	n := brokertest.Start(t)
	c := clusterOf(t, n)
	must(c.Client.CreateTopic(ctx, api.CreateTopic{Name: "t"}))(t)
	for _, name := range []string{"all", "none", "some"} {
		must(c.Client.CreateChannel(ctx, "t", api.CreateChannel{Name: name}))(t)
	}
	ids := publish(t, c, "t", 0, numbered(0, 1200)...).IDs
	for _, i := range []int{0, 1, 700} {
		must(c.Client.History.FinishMessage(ctx, "t", "some", ids[i]))(t)
	}
	done(t, c.Client.EmptyChannel(ctx, "t", "none"))
	m := must(c.Make(ctx, d, backups.Create{}))(t).Manifest
	published := 0
	hook := func(r *http.Request) *http.Response {
		if strings.HasSuffix(r.URL.Path, "/u/messages") || strings.HasSuffix(r.URL.Path, "/u/pause") { // the topic has no channels yet
			publish(t, c, "u", 0, api.Message{Text: "new"})
			published++
		}
		return nil
	}
	must(meanwhile(t, hook, n).Restore(ctx, d, m.Topic("t"), "u", 0, false))(t)
	for channel, want := range map[string]int{"all": 1200, "none": 0, "some": 1197} {
		got := contents(t, c, "u", channel)
		fresh := 0
		for _, x := range got {
			if strings.Contains(x, "new") {
				fresh++
			}
		}
		if fresh != published || len(got)-fresh != want {
			t.Errorf("channel %s: %d of %d new messages, and %d restored ones, want %d", channel, fresh, published, len(got)-fresh, want)
		}
	}
	if published < 4 {
		t.Errorf("published %d messages meanwhile", published)
	}
}

// TestTopicWithReducedLimitsIsRestored: its messages are larger, and more, than it would accept now.
func TestTopicWithReducedLimitsIsRestored(t *testing.T) {
	t.Parallel()
	ctx, d := t.Context(), backup.In(backup.Dir(t.TempDir()))
	c := clusterOf(t, brokertest.Start(t))
	must(c.Client.CreateTopic(ctx, api.CreateTopic{Name: "t"}))(t)
	must(c.Client.CreateChannel(ctx, "t", api.CreateChannel{Name: "c"}))(t)
	for range 40 {
		publish(t, c, "t", 0, api.Message{Body: make([]byte, 100<<10)})
	}
	most, each := int64(1<<20), 1000
	must(c.Client.AlterTopic(ctx, "t", api.ConfigPatch{MaxBytes: &most, MaxMessageBytes: &each}))(t)
	m := must(c.Make(ctx, d, backups.Create{}))(t).Manifest
	must(c.Restore(ctx, d, m.Topic("t"), "u", 0, true))(t)
	must(c.Restore(ctx, d, m.Topic("t"), "u", 0, false))(t)
	if got := contents(t, c, "u", "c"); len(got) != 40 {
		t.Errorf("%d messages", len(got))
	}
	if got := must(c.Client.Topic(ctx, "u"))(t).Config; got.MaxBytes != most || got.MaxMessageBytes != each {
		t.Errorf("max_bytes %d, max_message_bytes %d", got.MaxBytes, got.MaxMessageBytes)
	}
}

// TestRestoreNeedsTheRightsForAllOfIt: it left an incomplete topic.
func TestRestoreNeedsTheRightsForAllOfIt(t *testing.T) {
	t.Parallel()
	ctx, d := t.Context(), backup.In(backup.Dir(t.TempDir()))
	n := brokertest.Start(t)
	c := clusterOf(t, n)
	for _, name := range []string{"plain", "dead"} {
		must(c.Client.CreateTopic(ctx, api.CreateTopic{Name: name, Config: api.ConfigPatch{Ext: new(true)}}))(t)
	}
	publish(t, c, "plain", 0, numbered(0, 3)...)
	publish(t, c, "dead", 0, api.Message{Text: "x", Headers: []byte(`{"dead_letter":{"topic":"t","channel":"c"}}`)})
	m := must(c.Make(ctx, d, backups.Create{}))(t).Manifest
	for _, x := range []struct {
		rules, topic string
		may          bool
	}{
		{`{"right":"manage","topic":"*"}`, "plain", false},
		{`{"right":"publish","topic":"pl*"}`, "plain", true},
		{`{"right":"publish","topic":"*"}`, "dead", false},
		{`{"right":"admin"}`, "dead", true},
	} {
		hook := func(r *http.Request) *http.Response {
			if strings.HasSuffix(r.URL.Path, "/access/self") {
				return answered(r, `{"user":"x","enabled":true,"rules":[`+x.rules+`]}`)
			}
			return nil
		}
		if _, err := meanwhile(t, hook, n).Restore(ctx, d, m.Topic(x.topic), x.topic+"-2", 0, true); (err == nil) != x.may || err != nil && api.CodeOf(err) != failure.Forbidden {
			t.Errorf("%s as %s: %v", x.topic, x.rules, err)
		}
	}
}
