package admin

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/trace"
)

// fakeTraces has one message in every topic, except in the incarnation silent: at offset 5 of
// partition 0, found by its id, trace id 9 and key k.
type fakeTraces struct{}

func (fakeTraces) Trace(_ context.Context, q trace.Query) (operate.Traced, error) {
	known := seq.NewMessageID(0, 5)
	out := operate.Traced{Silent: []string{"n3"}}
	for _, m := range q.Messages {
		if m.ID == known {
			out.Lives = append(out.Lives, lifeOf(m))
		}
	}
	if q.TraceID == 9 || q.KeyHash == trace.HashKey([]byte("k")) {
		out.Lives = append(out.Lives, lifeOf(trace.Message{Incarnation: q.Incarnation, ID: known}))
	}
	return out, nil
}

func lifeOf(m trace.Message) trace.Life {
	return trace.Life{Message: m, Events: []trace.Noted{
		{Event: trace.Event{What: trace.Published, Time: 1e9, Message: m, Client: "10.0.0.1:1", Note: "n2"}, Node: "n1"},
		{Event: trace.Event{What: trace.Delivered, Time: 2e9, Message: m, Channel: "c", Client: "w", Attempt: 1}, Node: "n1"},
	}}
}

func TestTraceOfAMessageIsAnswered(t *testing.T) {
	f := newFake("orders")
	h := serverOf(t, f).Handler()
	first := f.topics["orders"]
	if first == nil {
		t.Fatal("the fake has no topic orders")
	}
	id := seq.NumberingOf(f.Cluster().ClusterID, uint64(first.Incarnation)).ID(seq.NewMessageID(0, 5)).String()
	for _, tt := range []struct {
		path, want string
		status     int
	}{
		{"/v1/messages/" + id + "/trace?topic=orders", `"what":"published","publisher":"10.0.0.1:1","through":"n2"`, 200},
		{"/v1/messages/" + id + "/trace?topic=orders", `"what":"delivered","attempt":1,"consumer":"w","channel":"c"`, 200},
		{"/v1/messages/" + id + "/trace?topic=orders", `"missing_nodes":["n3"]`, 200},
		{"/v1/messages/xyz/trace", "not a message id", 400},
		{"/v1/messages/0000000000000000/trace", "belongs to no topic", 404},
		{"/v1/messages/" + id + "/trace?topic=none", `topic \"none\" not found`, 404},
		{"/v1/topics/orders/traces?trace_id=9", `"id":"` + id + `"`, 200},
		{"/v1/topics/orders/traces?trace_id=0x9", `"id":"` + id + `"`, 200},
		{"/v1/topics/orders/traces?key=k", `"id":"` + id + `"`, 200},
		{"/v1/topics/orders/traces?trace_id=8", `"messages":[]`, 200},
		{"/v1/topics/orders/traces", "either trace_id or key", 400},
		{"/v1/topics/orders/traces?trace_id=9&key=k", "either trace_id or key", 400},
		{"/v1/topics/orders/traces?trace_id=x", "must be a number", 400},
		{"/v1/topics/none/traces?key=k", "not_found", 404},
	} {
		w := ask(h, http.MethodGet, tt.path, "")
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("%s: %d %s", tt.path, w.Code, w.Body)
		}
	}
}
