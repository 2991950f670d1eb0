package admin

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/stats"
	"github.com/brokerd/brokerd/pkg/topic"
)

// PeekBytes is the maximum of message bytes in one answer.
const peekBytes = 1 << 20

// orders is a fake with a topic of two partitions, one of which another node leads.
func orders() *fake {
	f := newFake("other")
	t := f.create("orders", meta.TopicConfig{Partitions: 2, RetentionAge: 72 * time.Hour, MaxMessage: 1024}.WithDefaults(1, false))
	t.Partitions[1] = meta.Partition{Replicas: []meta.NodeID{"n2", "n1"}, Leader: "n2", Epoch: 4, ISR: []meta.NodeID{"n2"}}
	f.withChannel("orders", "bill").withChannel("orders", "away")
	f.stats = []stats.Topic{{
		Name: "orders", Depth: 1, Messages: 130, Bytes: 13000, LogBytes: 8192,
		Partitions: []stats.Partition{{Partition: 0, Leader: "n1", Epoch: 1, LogStart: 2, CommittedEnd: 120, LogEnd: 121, Bytes: 4096}},
		Channels: []stats.Channel{{
			Name:          "bill",
			ChannelCounts: api.ChannelCounts{Depth: 5, InFlight: 1, Deferred: 2, MessagesTotal: 130, DeliveredTotal: 9, FinishedTotal: 8, RequeuedTotal: 7, TimedOutTotal: 6},
			OldestAge:     1500 * time.Millisecond,
			Consumers:     2,
			Partitions:    []api.ChannelPartition{{Partition: 0, Leader: "n1", Confirmed: 112, Lag: 8}},
			Clients: []stats.Client{
				{Consumer: api.Consumer{Address: "10.0.0.9:2", ClientID: "b", UserAgent: "x/1", Ready: 1, InFlight: 1, ConnectedAt: time.Unix(1795230600, 0).UTC()}},
				{Consumer: api.Consumer{Address: "10.0.0.9:1", ClientID: "a", TLS: true, DeliveredTotal: 4, FinishedTotal: 3, RequeuedTotal: 2, TimedOutTotal: 1, ConnectedAt: time.Unix(1795230601, 0).UTC()}},
			},
		}, {Name: "tail#ephemeral", Ephemeral: true}},
	}}
	return f
}

func TestV1MatchesItsGoldens(t *testing.T) {
	f := orders()
	f.ready = []health.Reason{{Code: "disk_full", Count: 1, What: "1 GiB free"}}
	h := serverOf(t, f).Handler()
	for name, target := range map[string]string{
		"v1-topics.json":          "/v1/topics",
		"v1-topic.json":           "/v1/topics/orders",
		"v1-channels.json":        "/v1/topics/orders/channels",
		"v1-channel.json":         "/v1/topics/orders/channels/bill",
		"v1-channel-away.json":    "/v1/topics/orders/channels/away",
		"v1-channel-tail.json":    "/v1/topics/orders/channels/tail%23ephemeral",
		"v1-partitions.json":      "/v1/partitions",
		"v1-of-a-topic.json":      "/v1/topics/orders/partitions",
		"v1-verify.json":          "/v1/topics/orders/verify",
		"v1-peek.json":            "/v1/topics/orders/messages?n=5&partition=1&from=3",
		"v1-cluster.json":         "/v1/cluster",
		"v1-health.json":          "/v1/cluster/health",
		"v1-nodes.json":           "/v1/nodes",
		"v1-unknown-topic.json":   "/v1/topics/order",
		"v1-unknown-channel.json": "/v1/topics/orders/channels/bil",
		"v1-unknown-path.json":    "/v1/nope",
	} {
		w := ask(h, "GET", target, "")
		if got := w.Header().Get("Content-Type"); got != jsonType {
			t.Errorf("%s: Content-Type %q", target, got)
		}
		goldenText(t, name, indented(t, w.Body.Bytes()))
	}
}

func TestV1ByItsClient(t *testing.T) {
	f := orders()
	c := clientOf(t, f)
	ctx := t.Context()
	want := func(what string, err error, code failure.Code) {
		t.Helper()
		if api.CodeOf(err) != code {
			t.Errorf("%s: got %v, want code %q", what, err, code)
		}
	}
	three, always := 3, api.SyncAlways
	made, err := c.CreateTopic(ctx, api.CreateTopic{Name: "new", Config: api.ConfigPatch{Partitions: &three, Sync: &always}})
	want("create", err, "")
	if made.Config.Partitions != 3 || len(made.Partitions) != 3 || made.Config.Sync != api.SyncAlways {
		t.Errorf("made %+v", made)
	}
	_, err = c.CreateTopic(ctx, api.CreateTopic{Name: "new", Config: api.ConfigPatch{Partitions: &three}})
	want("create again", err, "")
	_, err = c.CreateTopic(ctx, api.CreateTopic{Name: "new"})
	want("create otherwise", err, failure.Exists)
	_, err = c.CreateTopic(ctx, api.CreateTopic{Name: "a b"})
	want("create of no name", err, failure.Invalid)
	day := api.Duration(24 * time.Hour)
	altered, err := c.AlterTopic(ctx, "new", api.ConfigPatch{Retention: &day})
	want("alter", err, "")
	if altered.Config.Retention != day || altered.Config.Partitions != 3 {
		t.Errorf("altered to %+v", altered.Config)
	}
	grown, err := c.AddPartitions(ctx, "new", 4)
	want("add partitions", err, "")
	if len(grown.Partitions) != 4 {
		t.Errorf("%d partitions", len(grown.Partitions))
	}
	_, err = c.AddPartitions(ctx, "new", 4)
	want("add none", err, "")
	_, err = c.AddPartitions(ctx, "new", 2)
	want("add fewer", err, failure.Precondition)
	want("pause", c.PauseTopic(ctx, "new", true), "")
	if got, _ := c.Topic(ctx, "new"); !got.Paused {
		t.Error("not paused")
	}
	want("resume", c.PauseTopic(ctx, "new", false), "")
	want("empty", c.EmptyTopic(ctx, "new"), "")
	ch, err := c.CreateChannel(ctx, "new", api.CreateChannel{Name: "c#ephemeral", Ordered: true})
	want("create channel", err, "")
	if ch.Name != "c#ephemeral" || !ch.Ordered || !ch.Ephemeral {
		t.Errorf("made %+v", ch)
	}
	want("pause channel", c.PauseChannel(ctx, "new", "c#ephemeral", true), "")
	want("resume channel", c.PauseChannel(ctx, "new", "c#ephemeral", false), "")
	want("empty channel", c.EmptyChannel(ctx, "new", "c#ephemeral"), "")
	_, err = c.SeekChannel(ctx, "new", "c#ephemeral", api.Seek{To: api.SeekStart})
	want("seek", err, "")
	if !f.sought.Start {
		t.Errorf("sought %+v", f.sought)
	}
	_, err = c.DeleteChannel(ctx, "new", "c#ephemeral")
	want("delete channel", err, "")
	_, err = c.DeleteChannel(ctx, "new", "c#ephemeral")
	want("delete channel again", err, failure.NotFound)
	want("delete", c.DeleteTopic(ctx, "new"), "")
	want("delete again", c.DeleteTopic(ctx, "new"), failure.NotFound)
	one := 1
	stored, err := c.Publish(ctx, "orders", api.Publish{Messages: []api.Message{{Text: "a"}, {Body: []byte("b")}}, Partition: &one})
	want("publish", err, "")
	if stored.Count != 2 || stored.Topic != "orders" {
		t.Errorf("stored %+v", stored)
	}
	seen, err := c.Peek(ctx, "orders", "bill", api.PeekOptions{Partition: &one, From: new(uint64(7)), Max: 2, State: api.PeekDeferred})
	want("peek", err, "")
	if len(seen) != 2 || string(seen[0].Body) != "text" || seen[0].Text == nil || seen[1].Text != nil || seen[1].DeliverAt == nil {
		t.Errorf("saw %+v", seen)
	}
	if diff := cmp.Diff(operate.Peek{Topic: "orders", Channel: "bill", Partition: 1, From: new(seq.Offset(7)), Max: 2, Bytes: peekBytes, State: api.PeekDeferred}, f.peeked); diff != "" {
		t.Errorf("peeked (-want +got):\n%s", diff)
	}
	for channel, state := range map[string]api.PeekState{"bill": "finished", "": api.PeekReady} {
		_, err = c.Peek(ctx, "orders", channel, api.PeekOptions{State: state})
		want("peek in no state", err, failure.Invalid)
	}
	verified, err := c.Verify(ctx, "orders")
	want("verify", err, "")
	if len(verified.Partitions) != 3 || !verified.Partitions[0].Identical || verified.Partitions[1].Identical || verified.Partitions[2].Identical {
		t.Errorf("verified %+v", verified.Partitions)
	}
}

// Sums over nodes name the leaders that have not responded.
func TestV1NamesMissingNodes(t *testing.T) {
	f := orders()
	f.stats[0].MissingNodes = []string{"n2"}
	h := serverOf(t, f).Handler()
	for _, target := range []string{
		"/v1/topics", "/v1/topics/orders", "/v1/topics/orders/channels", "/v1/topics/orders/channels/bill", "/v1/topics/orders/channels/away",
		"/v1/partitions", "/v1/topics/orders/partitions",
	} {
		w := ask(h, "GET", target, "")
		if w.Code != 200 || !strings.Contains(w.Body.String(), `"missing_nodes":["n2"]`) {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	var p api.PartitionList
	if err := json.Unmarshal(ask(h, "GET", "/v1/topics/orders/partitions", "").Body.Bytes(), &p); err != nil || len(p.Partitions[0].MissingNodes) > 0 || len(p.Partitions[1].MissingNodes) != 1 {
		t.Errorf("the partition that n2 leads is to name it, and no other: %+v, %v", p, err)
	}
	f.stats[0].MissingNodes = nil
	if w := ask(h, "GET", "/v1/topics", ""); strings.Contains(w.Body.String(), "missing_nodes") {
		t.Errorf("all answered: %s", w.Body)
	}
}

func TestV1RefusesStaleVersions(t *testing.T) {
	h := serverOf(t, orders()).Handler()
	for _, test := range []struct {
		request, body string
		status        int
		says          string
	}{
		{"POST /v1/topics", ``, 400, "empty"},
		{"POST /v1/topics", `{`, 400, "unexpected"},
		{"POST /v1/topics", `{"name":"a","nmae":"b"}`, 400, `unknown field \"nmae\"`},
		{"POST /v1/topics", `{"name":"a","config":{"partitons":1}}`, 400, `unknown field \"partitons\"`},
		{"POST /v1/topics", `{"name":"a"} {}`, 400, "trailing data"},
		{"POST /v1/topics", `{"name":"a","config":{"partitions":0}}`, 400, "partitions is 0"},
		{"POST /v1/topics", `{"name":"a","config":{"partitions":-1}}`, 400, "partitions is -1"},
		{"POST /v1/topics", `{"name":"a","config":{"partitions":100000}}`, 400, "100000 partitions"},
		{"POST /v1/topics", `{"name":"a","config":{"max_message_bytes":11}}`, 400, "more than the 10 bytes that node n2 takes from its clients (max-msg-size 10)"},
		{"PATCH /v1/topics/orders", `{"max_message_bytes":11}`, 400, "max-msg-size"},
		{"POST /v1/topics", `{"name":"a","config":{"retention":"3 days"}}`, 400, "not a valid duration"},
		{"POST /v1/topics", `{"name":"a","config":{"retention":"-1h"}}`, 400, "negative"},
		{"POST /v1/topics", `{"name":"a","config":{"sync":"never"}}`, 400, "not a sync policy"},
		{"POST /v1/topics", `{"name":"!"}`, 400, "name"},
		{"POST /v1/topics", strings.Repeat(" ", 1<<20+1), 413, "exceeds"},
		{"PATCH /v1/topics/orders", `{"partitions":3}`, 409, "cannot be altered"},
		{"PATCH /v1/topics/orders", `{"ordered":true}`, 409, "cannot be altered"},
		{"PATCH /v1/topics/orders", `{"ext":true}`, 409, "cannot be altered"},
		{"PATCH /v1/topics/orders", `{"min_isr":0}`, 400, "min_isr is 0"},
		{"PATCH /v1/topics/orders", `{"min_isr":5}`, 400, "min_isr 5"},
		{"PATCH /v1/topics/none", `{}`, 404, "none"},
		{"PUT /v1/topics/orders", `{}`, 405, "PUT"},
		{"GET /v1/topics/orders/pause", ``, 405, "GET"},
		{"GET /v1/topics/%21", ``, 400, "name"},
		{"GET /v1/topics/orders/channels/none", ``, 404, "channel"},
		{"GET /v1/topics/orders/channels/%21", ``, 400, "name"},
		{"POST /v1/topics/orders/channels", `{"name":"!"}`, 400, "name"},
		{"POST /v1/topics/orders/channels/bill/seek", `{}`, 400, "not 0"},
		{"POST /v1/topics/orders/channels/bill/seek", `{"to":"start","offset":1}`, 400, "not 2"},
		{"POST /v1/topics/orders/channels/bill/seek", `{"to":"middle"}`, 400, "middle"},
		{"POST /v1/topics/orders/channels/bill/seek", `{"offset":1125899906842624}`, 400, "exceeds the maximum"},
		{"POST /v1/topics/orders/channels/bill/seek", `{"offset":-1}`, 400, "offset"},
		{"POST /v1/topics/orders/channels/bill/seek", `{"time":"0001-01-01T00:00:00Z"}`, 400, "zero"},
		{"GET /v1/topics/orders/messages?n=0", ``, 400, "n is"},
		{"GET /v1/topics/orders/messages?from=x", ``, 400, "from"},
		{"GET /v1/topics/orders/messages?partition=1024", ``, 400, "partition"},
		{"GET /v1", ``, 404, "/v1"},
	} {
		method, target, _ := strings.Cut(test.request, " ")
		w := ask(h, method, target, test.body)
		var a api.ErrorAnswer
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || a.Error == nil {
			t.Errorf("%s %s: answer is %s", test.request, test.body, w.Body)
			continue
		}
		if w.Code != test.status || a.Error.Code.Status() != test.status || !strings.Contains(w.Body.String(), test.says) {
			t.Errorf("%s %.60s: got %d %s, want %d and %q", test.request, test.body, w.Code, w.Body, test.status, test.says)
		}
		if test.status == 405 && w.Header().Get("Allow") == "" {
			t.Errorf("%s: no Allow", test.request)
		}
	}
}

func TestV1PublishReadsMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake("t")
		h := serverOf(t, f).Handler()
		const kind = "Content-Type"
		ask(h, "POST", "/v1/topics/t/messages", `{"messages":[{"text":"a","delay":"10s","trace_id":7,"headers":{"k":1}},{"body":"Yg=="}],"key":"k"}`, kind, "application/json; charset=utf-8")
		ask(h, "POST", "/v1/topics/t/messages?partition=2&key=k&delay=1s&dedup=d&ttl=1h", "raw", kind, "text/plain")
		ask(h, "POST", "/v1/topics/t/messages", `{"messages":[{"text":"a","key":"own","dedup":"d1","ttl_ms":9,"delay_ms":7}],"key":"k"}`)
		ask(h, "POST", "/v1/topics/t/messages", "raw")
		for _, curl := range []string{"", "application/x-www-form-urlencoded"} {
			ask(h, "POST", "/v1/topics/t/messages", ` {"messages":[{"text":"c"},{"text":"d"}]}`, kind, curl)
			ask(h, "POST", "/v1/topics/t/messages", `{"m":[1]}`, kind, curl)
		}
		want := []publish.Request{
			{Topic: "t", Partition: host.AnyPartition, Messages: []topic.Message{
				{Body: []byte("a"), Delay: 10 * time.Second, TraceID: 7, Header: []byte(`{"k":1}`), Key: []byte("k")},
				{Body: []byte("b"), Key: []byte("k")},
			}},
			{Topic: "t", Partition: 2, Messages: []topic.Message{{
				Body: []byte("raw"), Delay: time.Second, Key: []byte("k"), Dedup: []byte("d"), TTL: time.Hour,
			}}},
			{Topic: "t", Partition: host.AnyPartition, Messages: []topic.Message{
				{Body: []byte("a"), Key: []byte("own"), Dedup: []byte("d1"), TTL: 9 * time.Millisecond, Delay: 7 * time.Millisecond},
			}},
			{Topic: "t", Partition: host.AnyPartition, Messages: messages("raw")},
		}
		for range 2 {
			want = append(want,
				publish.Request{Topic: "t", Partition: host.AnyPartition, Messages: messages("c", "d")},
				publish.Request{Topic: "t", Partition: host.AnyPartition, Messages: messages(`{"m":[1]}`)})
		}
		checkPublished(t, f.published, want)
	})
}

func TestV1PublishRefusals(t *testing.T) {
	for _, test := range []struct {
		target, kind, body string
		status             int
		says               string
	}{
		{"", "application/json", `{"messages":[]}`, 400, "no messages"},
		{"", "application/json", `{"messages":[{}]}`, 400, "message 0: message is empty"},
		{"", "application/json", `{"messages":[{"text":"a","body":"Yg=="}]}`, 400, "mutually exclusive"},
		{"", "application/json", `{"messages":[{"text":"0123456789a"}]}`, 413, "11 bytes"},
		{"", "application/json", `{"messages":[{"text":"a","delay":"2h"}]}`, 400, "delay"},
		{"", "application/json", `{"messages":[{"text":"a","headers":[1]}]}`, 400, "object"},
		{"", "application/json", `{"messages":[{"text":"a"}],"partition":1024}`, 400, "partition"},
		{"", "application/json", `{"message":"a"}`, 400, "unknown field"},
		{"", "application/json", strings.Repeat(" ", 129), 413, "exceeds"},
		{"", "", `{"messages":[{"txt":"a"}]}`, 400, "unknown field"},
		{"", "application/x-www-form-urlencoded", `{"messages":[]}`, 400, "no messages"},
		{"", "text/plain", `{"messages":[]}`, 413, "exceeds"}, // it is one message
		{"", "", `{"m":"0123456789a"}`, 413, "exceeds 10"},
		{"", "", strings.Repeat(" ", 129), 413, "exceeds"},
		{"", "", "", 400, "empty"},
		{"", "", "0123456789a", 413, "exceeds"},
		{"?partition=-1", "", "a", 400, "partition"},
		{"?ttl=-1s", "", "a", 400, "ttl"},
		{"?ttl=soon", "", "a", 400, "ttl"},
		{"?key=" + strings.Repeat("k", 256), "", "a", 400, "key has 256 bytes"},
		{"?dedup=" + strings.Repeat("d", 65), "", "a", 400, "dedup id has 65 bytes"},
		{"", "application/json", `{"messages":[{"text":"a","ttl_ms":-1}]}`, 400, "ttl_ms -1 is not between 0 and 315360000000"},
		{"", "application/json", `{"messages":[{"text":"a","delay_ms":9223372036854775807}]}`, 400, "delay_ms 9223372036854775807 is not between 0 and "},
		{"?delay=soon", "", "a", 400, "delay"},
		{"?delay=-1s", "", "a", 400, "delay"},
	} {
		w := ask(serverOf(t, newFake("t")).Handler(), "POST", "/v1/topics/t/messages"+test.target, test.body, "Content-Type", test.kind)
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.says) {
			t.Errorf("%q %q: got %d %s, want %d and %q", test.target, test.body, w.Code, w.Body, test.status, test.says)
		}
	}
	if w := ask(serverOf(t, newFake()).Handler(), "POST", "/v1/topics/%21/messages", "a"); w.Code != 400 {
		t.Errorf("a bad name: got %d", w.Code)
	}
}

func TestV1ReportsPublishOutcome(t *testing.T) {
	for _, test := range []struct {
		err       error
		status    int
		code      failure.Code
		hasBecome string
	}{
		{failure.ShuttingDown, 503, failure.Exiting, "refused"},
		{failure.QueueFull, 503, failure.Busy, "refused"},
		{failure.DiskFull, 503, failure.NotWritable, "refused"},
		{fate.Refuse("too few"), 503, failure.NotWritable, "refused"},
		{errors.New("term ended"), 500, failure.Uncertain, "uncertain"},
		{fate.Mark(errors.New("bad sum"), fate.Corrupt), 500, failure.Corrupt, "corrupt"},
	} {
		f := newFake("t")
		f.receipt = func(publish.Request) *topic.Receipt { return &topic.Receipt{Err: test.err} }
		w := ask(serverOf(t, f).Handler(), "POST", "/v1/topics/t/messages", "x")
		var a api.ErrorAnswer
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
			t.Fatal(err)
		}
		if w.Code != test.status || a.Error.Code != test.code || a.Error.Fate != test.hasBecome {
			t.Errorf("%v: got %d %s", test.err, w.Code, w.Body)
		}
	}
}

func TestV1ReportsEachPartition(t *testing.T) {
	f := newFake("t")
	f.receipt = func(publish.Request) *topic.Receipt {
		ids := []seq.MessageID{seq.NewMessageID(2, 7), seq.NewMessageID(0, 1), seq.NewMessageID(2, 8)}
		return &topic.Receipt{Partition: 2, First: 7, Count: 3, IDs: ids}
	}
	w := ask(serverOf(t, f).Handler(), "POST", "/v1/topics/t/messages", `{"messages":[{"text":"a"},{"text":"b"},{"text":"c"}]}`)
	var got api.Published
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := []api.PublishedPart{{Partition: 2, FirstSeq: 7, Count: 2}, {Partition: 0, FirstSeq: 1, Count: 1}}
	if !slices.Equal(got.Parts, want) || got.Partition != 2 || got.FirstSeq != 7 || got.Count != 3 || len(got.IDs) != 3 {
		t.Errorf("%+v", got)
	}
}

func TestTopicIsPlanned(t *testing.T) {
	f := orders()
	h := serverOf(t, f).Handler()
	for body, want := range map[string]string{
		`{"name":"new","config":{"partitions":1},"dry_run":true}`:                         `"message_limit":10`,
		`{"name":"new","config":{"max_message_bytes":7},"dry_run":true}`:                  `"message_limit":7`,
		`{"name":"new","config":{"max_message_bytes":11},"dry_run":true}`:                 `more than the 10 bytes that node n2 takes`,
		`{"name":"orders","config":{"partitions":3},"dry_run":true}`:                      `"exists"`,
		`{"name":"no good","config":{},"dry_run":true}`:                                   `"invalid"`,
		`{"name":"new","config":{"retention":"72h","retention_bytes":-1},"dry_run":true}`: `"invalid"`,
	} {
		if w := ask(h, "POST", "/v1/topics", body); !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	if len(f.calls) > 0 {
		t.Errorf("a dry run asked for %v", f.calls)
	}
}

// A dry run is refused for what the change would be refused for, has its result, and is no act.
func TestChangesAreTriedOut(t *testing.T) {
	const channel = "/v1/topics/orders/channels"
	for request, want := range map[string]string{
		`PATCH /v1/topics/orders?dry_run=true {"ttl":"1h"}`:                                                                  `"ttl":"1h0m0s"`,
		`PATCH /v1/topics/orders?dry_run=true {"ttl":"-1h"}`:                                                                 `"invalid"`,
		`PATCH /v1/topics/orders?dry_run=true {"ext":true}`:                                                                  `cannot be altered`,
		`PATCH /v1/topics/orders {"dry_run":true}`:                                                                           `unknown field`,
		`POST /v1/topics/orders/partitions {"partitions":9,"dry_run":true}`:                                                  `"partition":8`,
		`POST /v1/topics/orders/partitions {"partitions":1,"dry_run":true}`:                                                  `cannot be lowered`,
		`POST ` + channel + ` {"name":"new","filter":"key == \"a\"","dry_run":true}`:                                         `"filter":"key == \"a\""`,
		`POST ` + channel + ` {"name":"new","filter":"key ==","dry_run":true}`:                                               `"invalid"`,
		`POST ` + channel + ` {"name":"new","order":"none","from":{"to":"middle"},"dry_run":true}`:                           `must be start or end`,
		`PATCH ` + channel + `/bill {"policy":{"max_attempts":7},"dry_run":true}`:                                            `"max_attempts":7`,
		`PATCH ` + channel + `/bill {"policy":{"on_exhausted":"x"},"dry_run":true}`:                                          `"invalid"`,
		`PATCH ` + channel + `/none {"policy":{"max_attempts":7},"dry_run":true}`:                                            `"not_found"`,
		`POST /v1/topics {"name":"new","config":{},"channels":[{"name":"a"},{"name":"b","order":"key"}],"dry_run":true}`:     `"order":"key"`,
		`POST /v1/topics {"name":"new","config":{},"channels":[{"name":"a"},{"name":"b","filter":"key =="}],"dry_run":true}`: `channel b: `,
		`POST /v1/topics {"name":"new","config":{},"channels":[{"name":"a"}]}`:                                               `nothing was changed`,
	} {
		f := orders()
		method, rest, _ := strings.Cut(request, " ")
		target, body, _ := strings.Cut(rest, " ")
		w := ask(serverOf(t, f).Handler(), method, target, body)
		if !strings.Contains(w.Body.String(), want) || len(f.calls) > 0 || strings.Contains(request, `"dry_run":true`) && method == "POST" && len(f.Journal().Acts()) > 0 {
			t.Errorf("%s: %d %s, called %v, %d acts", request, w.Code, w.Body, f.calls, len(f.Journal().Acts()))
		}
	}
}

// A dry run is refused like the change while the metadata has no leader. That of what is ephemeral needs none.
func TestDryRunIsRefusedWithoutALeader(t *testing.T) {
	for request, want := range map[string]int{
		"DELETE /v1/topics/orders?dry_run=true":                            503,
		"DELETE /v1/topics/orders?dry_run=true&purge=true":                 503,
		"DELETE /v1/topics/orders/channels/bill?dry_run=true":              503,
		"POST /v1/topics/orders/channels/bill/empty?dry_run=true":          503,
		"POST /v1/topics/orders/channels/x%23ephemeral/empty?dry_run=true": 200,
		"POST /v1/topics/orders/empty?dry_run=true":                        200,
	} {
		f := orders().withChannel("orders", "x#ephemeral")
		f.undecidable = failure.NoQuorum
		method, target, _ := strings.Cut(request, " ")
		if w := ask(serverOf(t, f).Handler(), method, target, ""); w.Code != want {
			t.Errorf("%s: %d %s, want %d", request, w.Code, w.Body, want)
		}
	}
}

// What a dry run of a deletion answers is what would be deleted, to callers that may delete it.
func TestWhatHurtsIsTriedOut(t *testing.T) {
	for request, want := range map[string]string{
		"DELETE /v1/topics/orders?dry_run=true":                          `"name":"orders"`,
		"DELETE /v1/topics/orders?dry_run=true&purge=true":               `"name":"orders"`,
		"DELETE /v1/topics/orders?dry_run=true&purge=true&incarnation=7": `"invalid"`,
		"DELETE /v1/topics/orders?dry_run=maybe":                         `"invalid"`,
		"POST /v1/topics/orders/pause?dry_run=true":                      `takes no parameter dry_run: nothing was changed`,
		"POST /v1/topics/orders/channels/bill/undo?dry_run=false":        `takes no parameter dry_run`,
		"POST /v1/nodes/n1/undrain?dry_run=true":                         `takes no parameter dry_run`,
		"DELETE /v1/channels?topic=orders&channel=bill&dry_run=true":     `"name":"bill"`,
		"DELETE /v1/topics/none?dry_run=true":                            `"not_found"`,
		"POST /v1/topics/orders/empty?dry_run=true":                      `"name":"orders"`,
		"DELETE /v1/topics/orders/channels/bill?dry_run=true":            `"name":"bill"`,
		"DELETE /v1/topics/orders/channels/none?dry_run=true":            `"not_found"`,
		"POST /v1/topics/orders/channels/bill/empty?dry_run=true":        `"name":"bill"`,
		"POST /v1/topics/orders/channels/bill/empty?dry_run=x":           `"invalid"`,
	} {
		f := orders()
		method, target, _ := strings.Cut(request, " ")
		w := ask(serverOf(t, f).Handler(), method, target, "")
		if !strings.Contains(w.Body.String(), want) || len(f.calls) > 0 || w.Code == 200 && len(f.Journal().Acts()) > 0 {
			t.Errorf("%s: %d %s, called %v", request, w.Code, w.Body, f.calls)
		}
	}
}
