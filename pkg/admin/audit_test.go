package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/admin/api"
	v1 "github.com/brokerd/brokerd/pkg/admin/v1"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
)

func TestOperatorActsAreRecorded(t *testing.T) {
	f := orders()
	h := serverOf(t, f).Handler()
	for _, x := range []struct{ method, target, body, reason, object, request string }{
		{"POST", "/v1/topics/orders/channels/bill/pause", "", "too\nfast", "orders/bill", ""},
		{"PATCH", "/v1/topics/orders", `{"retention":"1h"}`, "", "orders", `{"retention":"1h"}`},
		{"DELETE", "/v1/channels?topic=orders&channel=bill&reason=old", "", "", "orders/bill", ""},
		{"POST", "/channel/empty?topic=orders&channel=away", "", "", "orders/away", ""},
		{"POST", "/v1/nodes/n1/drain", `{"force":true}`, "", "n1", `{"force":true}`},
		{"POST", "/v1/topics/orders/partitions/1/elect", `{"unclean":true,"to":"n2"}`, "", "orders/1", `{"unclean":true,"to":"n2"}`},
		{"DELETE", "/v1/topics/none", "", "", "none", ""},
		{"POST", "/v1/topics", `{"name":"new"}`, "", "new", `{"name":"new"}`},
		{"POST", "/v1/topics/orders/channels", `{"name":"new"}`, "", "orders/new", `{"name":"new"}`},
	} {
		var headers []string
		if x.reason != "" {
			headers = []string{api.ReasonHeader, x.reason, "User-Agent", "brokerctl/1"}
		}
		w := ask(h, x.method, x.target, x.body, headers...)
		acts := f.Journal().Acts()
		a := acts[len(acts)-1]
		path, _, _ := strings.Cut(x.target, "?")
		if a.Verb != x.method+" "+path || a.Object != x.object || a.Request != x.request || a.Status != w.Code || a.Actor != "192.0.2.1:1234" || a.At == 0 {
			t.Errorf("%s: %+v, status %d", x.target, a, w.Code)
		}
	}
	acts := f.Journal().Acts()
	if a := acts[0]; a.Reason != "too fast" || a.Agent != "brokerctl/1" {
		t.Errorf("%+v", a)
	}
	if acts[2].Reason != "old" || !strings.Contains(acts[2].Before, `{"ordered":false,"paused":true`) || acts[2].After != "" {
		t.Errorf("%+v", acts[2])
	}
	// A dry run changes nothing.
	for target, body := range map[string]string{
		"/v1/nodes/n1/decommission": `{"dry_run":true}`, "/v1/topics/orders/partitions/0/move": `{"replicas":["n2"],"dry_run":true}`,
		"/v1/topics/orders/channels/bill/dead-letters/redrive": `{"max":1,"dry_run":true}`, "/v1/cluster/finalize-upgrade": `{"dry_run":true}`,
		"/v1/deleted/orders/restore": `{"dry_run":true}`, "/v1/topics/orders/channels/bill/restore": `{"replace":true,"dry_run":true}`,
	} {
		if w := ask(h, http.MethodPost, target, body); w.Code >= 300 {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	// Reads and publishes are not operator acts.
	for _, target := range []string{"GET /v1/topics", "POST /v1/topics/orders/messages", "POST /pub?topic=orders", "GET /ping", "POST /mpub?topic=orders"} {
		method, path, _ := strings.Cut(target, " ")
		ask(h, method, path, "x")
	}
	if got := f.Journal().Acts(); len(got) != len(acts) {
		t.Errorf("recorded too: %+v", got[len(acts):])
	}
	if got := clipped(strings.Repeat("ä", 300), 100); len(got) > 100 || !strings.HasSuffix(got, "ä...") {
		t.Errorf("%q", got)
	}
}

// Neither the name of an object, nor a parameter that the endpoint does not take, nor a long body keeps a change out of
// the audit log, or hides what it was of.
func TestNothingHidesAChange(t *testing.T) {
	long := strings.Repeat(" ", 2*maxRequest)
	for _, x := range []struct{ request, body, object string }{
		{"DELETE /v1/topics/messages", "", "messages"},
		{"DELETE /v1/topics/orders/channels/messages", "", "orders/messages"},
		{"PATCH /v1/topics/orders/channels/messages", "{}", "orders/messages"},
		{"DELETE /v1/nodes/messages", "", "messages"},
		{"DELETE /v1/topics/orders?channel=other", "", "orders"},
		{"DELETE /v1/topics?topic=orders&channel=other", "", "orders"},
		{"POST /topic/delete?topic=orders&channel=other", "", "orders"},
		{"POST /v1/topics/orders/channels/bill/pause?topic=a&channel=b", "", "orders/bill"},
		{"POST /v1/cluster/raft/transfer?topic=a&channel=b", "", ""},
		{"POST /v1/topics", long + `{"name":"new"}`, "new"},
		{"POST /v1/topics?topic=other", `{"name":"new"}`, "new"},
		{"POST /v1/topics/orders/channels", long + `{"name":"new"}`, "orders/new"},
		{"POST /v1/topics/orders/channels?channel=other", `{"name":"new"}`, "orders/new"},
		{"PATCH /v1/topics/channels", `{"name":"new"}`, "channels"},
	} {
		f := orders()
		method, target, _ := strings.Cut(x.request, " ")
		w := ask(serverOf(t, f).Handler(), method, target, x.body)
		if acts := f.Journal().Acts(); len(acts) != 1 || acts[0].Object != x.object {
			t.Errorf("%s: answered %d, recorded %+v, want the object %q", x.request, w.Code, acts, x.object)
		}
	}
}

// TestEveryChangeIsRecorded asks for each endpoint of both addresses that may change something and does not need an
// administrator.
func TestEveryChangeIsRecorded(t *testing.T) {
	for i, rights := range []map[string]need{(&Options{}).needs(rightsOfV1, rightsOfNode), rightsOfLookup} {
		for pattern, n := range rights {
			method, path, _ := strings.Cut(pattern, " ")
			if method == http.MethodGet || n.always || n.right == access.Publish || strings.HasPrefix(path, "/debug/pprof") {
				continue
			}
			f := orders()
			s := serverOf(t, f, func(o *Options) { o.Debug = true })
			path = strings.NewReplacer("{topic}", "none", "{channel}", "c", "{partition}", "0", "{node}", "n9", "{user}", "u", "{id}", "x").Replace(path)
			w := ask([]http.Handler{s.Handler(), s.LookupHandler()}[i], method, path+"?topic=none&channel=c", "{}")
			if acts := f.Journal().Acts(); len(acts) != 1 || acts[0].Verb != method+" "+path {
				t.Errorf("%s: answered %d, recorded %+v", pattern, w.Code, acts)
			}
		}
	}
}

// TestRemovedNodeAnswersBeforeRecordingTheAct: the removed node may be the one that serves the
// request, and it stops as soon as it is no member.
func TestRemovedNodeAnswersBeforeRecordingTheAct(t *testing.T) {
	for _, x := range []struct {
		target, pattern string
		first           bool
	}{
		{"/v1/nodes/n1", "DELETE /v1/nodes/{node}", true},
		{"/v1/topics/none", "DELETE /v1/topics/{topic}", false},
	} {
		w := httptest.NewRecorder()
		answered := false
		node := optionsOf(orders()).V1.Broker
		node.Audit = recorder{node.Audit, func() { answered = w.Flushed }}
		act := audited{node, func(string, int) {}, func(*http.Request) string { return x.pattern }, func(w http.ResponseWriter, _ *http.Request) string {
			w.WriteHeader(http.StatusNoContent)
			return ""
		}}
		act.serve(w, httptest.NewRequest(http.MethodDelete, x.target, http.NoBody))
		if answered != x.first {
			t.Errorf("%s: answered before the act is recorded: %v", x.target, answered)
		}
	}
}

// TestActsAreCountedUnderFixedNames also checks that other requests are not counted.
func TestActsAreCountedUnderFixedNames(t *testing.T) {
	o := optionsOf(orders())
	var got []string
	o.ObserveAct = func(action string, status int) { got = append(got, fmt.Sprint(action, " ", status)) }
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range [][2]string{
		{"POST", "/v1/topics/none/pause"},
		{"DELETE", "/v1/topics/none"},
		{"GET", "/v1/topics"},
		{"POST", "/topic/pause?topic=none"},
		{"BREW", "/topic/pause?topic=none"},
		{"POST", "/v1/no/such/path"},
		{"POST", "/pub?topic=orders"},
		{"PUT", "/config/log_level"},
	} {
		s.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(x[0], x[1], http.NoBody))
	}
	want := []string{
		"POST /v1/topics/{topic}/pause 404", "DELETE /v1/topics/{topic} 404", "POST /topic/pause 404",
		"PUT /config/ 403",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestRequestsWithoutAnEndpointAreNoActs: probes, scanners and mistyped requests change nothing, and may be many.
func TestRequestsWithoutAnEndpointAreNoActs(t *testing.T) {
	f := orders()
	s := serverOf(t, f)
	for _, target := range []string{
		"PUT /v1/topics/orders", "POST /v1/topics/orders/no-such-verb", "POST /v1/topics//pause", "BREW /topic/pause?topic=orders",
		"PUT /channel/empty?topic=orders&channel=away", "POST /topic/no-such-verb", "DELETE /topic/delete?topic=orders",
	} {
		method, path, _ := strings.Cut(target, " ")
		for _, h := range []http.Handler{s.Handler(), s.LookupHandler()} {
			w := ask(h, method, path, "")
			if acts := f.Journal().Acts(); w.Code < http.StatusBadRequest || len(acts) > 0 {
				t.Errorf("%s: answered %d, recorded %+v", target, w.Code, acts)
			}
		}
	}
	ask(s.Handler(), http.MethodDelete, "/v1/topics", "") // without the name
	if acts := f.Journal().Acts(); len(acts) != 1 || acts[0].Status != http.StatusBadRequest {
		t.Errorf("a refused request to an endpoint: recorded %+v", acts)
	}
}

// failing is a node whose changes of topics end with a panic.
type failing struct{ v1.TopicWriter }

func (failing) PauseTopic(context.Context, string, bool) error { panic("BUG: for a test") }

// TestActThatPanicsIsRecorded: the change may have been made.
func TestActThatPanicsIsRecorded(t *testing.T) {
	f := orders()
	var observed []string
	h := serverOf(t, f, func(o *Options) {
		o.V1.Broker.TopicWriter = failing{o.V1.Broker.TopicWriter}
		o.ObserveAct = func(action string, status int) { observed = append(observed, fmt.Sprint(action, " ", status)) }
	}).Handler()
	if w := ask(h, http.MethodPost, "/v1/topics/orders/pause", ""); w.Code != http.StatusInternalServerError {
		t.Errorf("answered %d %s", w.Code, w.Body)
	}
	acts := f.Journal().Acts()
	if len(acts) != 1 || acts[0].Verb != "POST /v1/topics/orders/pause" || acts[0].Status != http.StatusInternalServerError || acts[0].Object != "orders" {
		t.Errorf("recorded %+v", acts)
	}
	if want := []string{"POST /v1/topics/{topic}/pause 500"}; !cmp.Equal(observed, want) {
		t.Errorf("counted %q", observed)
	}
}

// recorder reports when an act is recorded.
type recorder struct {
	v1.Audit
	told func()
}

func (r recorder) RecordAct(context.Context, meta.Act, fate.Fate) { r.told() }

func TestAuditAndEventsAreFiltered(t *testing.T) {
	f := orders()
	at := time.Date(2026, 11, 24, 8, 0, 0, 0, time.UTC)
	for i, c := range []meta.Command{
		meta.NodeStarted{Node: meta.Node{ID: "n1"}},
		meta.CreateTopic{Name: "t", Config: meta.TopicConfig{}.WithDefaults(1, false), Assignment: [][]meta.NodeID{{"n1"}}},
		meta.CreateChannel{Topic: "t", Channel: "c"},
		meta.RecordAct{Act: meta.Act{At: at.UnixNano(), Actor: "10.0.0.1:1", Verb: "PATCH /v1/topics/t", Object: "t", Status: 200}},
		meta.RecordAct{Act: meta.Act{At: at.Add(time.Hour).UnixNano(), Identity: "CN=ops", Verb: "DELETE /v1/topics/tt", Object: "tt", Status: 204}},
		meta.RecordAct{Act: meta.Act{At: at.Add(2 * time.Hour).UnixNano(), Actor: "10.0.0.2:1", Verb: "POST /v1/topics/t/channels/c/pause", Object: "t/c", Status: 204}},
	} {
		if r := meta.ApplyAt(&f.journal, uint64(i+1), at.Add(time.Duration(i)*time.Minute).UnixNano(), c); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	h := serverOf(t, f).Handler()
	for target, want := range map[string]string{
		"/v1/audit": "4 5 6", "/v1/audit?object=t": "4 6", "/v1/audit?object=t/c": "6", "/v1/audit?actor=10.0.0": "4 6", "/v1/audit?actor=ops": "5",
		"/v1/audit?since=2026-11-24T09:00:00Z": "5 6", "/v1/audit?after=4": "5 6", "/v1/audit?n=1": "6", "/v1/audit?actor=nobody": "",
		"/v1/events": "1 2 3", "/v1/events?object=t": "2 3", "/v1/events?after=2": "3", "/v1/events?since=2026-11-24T08:01:00Z": "2 3", "/v1/events?n=2": "2 3",
	} {
		w := ask(h, http.MethodGet, target, "")
		var got struct{ Acts, Events []struct{ Index json.Number } }
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		var indexes []string
		for _, x := range append(got.Acts, got.Events...) {
			indexes = append(indexes, x.Index.String())
		}
		if s := strings.Join(indexes, " "); s != want {
			t.Errorf("%s: %s, want %s: %s", target, s, want, w.Body)
		}
	}
	for _, target := range []string{"/v1/audit?since=yesterday", "/v1/events?after=x", "/v1/events?n=0"} {
		if w := ask(h, http.MethodGet, target, ""); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
}
