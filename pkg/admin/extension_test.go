package admin

import (
	"fmt"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// The endpoints of youzan's nsq that publish with a header or a trace id, and nsqd's with
// request headers.
func TestPublishingWithHeadersAndTraceIDs(t *testing.T) {
	ids := seq.NumberingOf("c1", 0)
	at := func(traceID string) string {
		return fmt.Sprintf(`{"status":"OK","id":%d,"trace_id":"%s","queue_offset":62,"rawsize":31}`, uint64(ids.ID(seq.NewMessageID(0, 3))), traceID)
	}
	for _, test := range []struct {
		name, target, body string
		headers            []string
		status             int
		answer             string
		stored             topic.Message
	}{
		{"ext", "/pub_ext?topic=ext&ext=%7B%22k%22%3A%22v%22%7D", "x", nil, 200, "OK", topic.Message{Body: []byte("x"), Header: []byte(`{"k":"v"}`)}},
		{
			"ext and request headers", "/pub_ext?topic=ext&ext=%7B%22k%22%3A%22v%22%2C%22n%22%3A1%7D", "x",
			[]string{"X-NSQEXT-K", "w", "X-Nsqext-Other-Key", "é"},
			200, "OK",
			topic.Message{Body: []byte("x"), Header: []byte(`{"k":"w","n":1,"other-key":"é"}`)},
		},
		{"request headers", "/pub?topic=ext", "x", []string{"X-NSQEXT-Name", "v"}, 200, "OK", topic.Message{Body: []byte("x"), Header: []byte(`{"name":"v"}`)}},
		{"request headers of a batch", "/mpub?topic=ext", "x", []string{"X-NSQEXT-Name", "v"}, 200, "OK", topic.Message{Body: []byte("x"), Header: []byte(`{"name":"v"}`)}},
		{
			"a reserved key and a parameter", "/pub?topic=ext&key=p", "x",
			[]string{"X-NSQEXT-##ttl", "1000", "X-NSQEXT-##key", "h"},
			200, "OK",
			topic.Message{Body: []byte("x"), Header: []byte(`{"##key":"h","##ttl":"1000"}`), Key: []byte("p"), TTL: time.Second},
		},
		{"a trace id in ext", "/pub_ext?topic=ext&ext=%7B%22%23%23trace_id%22%3A%227%22%7D", "x", nil, 200, at("7"), topic.Message{Body: []byte("x"), Header: []byte(`{"##trace_id":"7"}`), TraceID: 7}},
		{"a trace id", "/pubtrace?topic=t&trace_id=18446744073709551615", "x", nil, 200, at("18446744073709551615"), topic.Message{Body: []byte("x"), TraceID: 1<<64 - 1}},

		{"no trace id", "/pubtrace?topic=t", "x", nil, 400, "INVALID_TRACE_ID", topic.Message{}},
		{"a trace id that is no number", "/pubtrace?topic=t&trace_id=a", "x", nil, 400, "INVALID_TRACE_ID", topic.Message{}},
		{"no topic", "/pubtrace?trace_id=1", "x", nil, 400, "MISSING_ARG_TOPIC", topic.Message{}},
		{"a topic that is missing", "/pub_ext?topic=none&ext=%7B%7D", "x", nil, 404, "E_TOPIC_NOT_EXIST", topic.Message{}},
		{"no message", "/pub_ext?topic=ext&ext=%7B%7D", "", nil, 400, "MSG_EMPTY", topic.Message{}},
		{"a message too big", "/pub_ext?topic=ext&ext=%7B%7D", "01234567890", nil, 413, "MSG_TOO_BIG", topic.Message{}},
		{"a partition that is no number", "/pub_ext?topic=ext&partition=x&ext=%7B%7D", "x", nil, 400, "INVALID_PARTITION", topic.Message{}},
		{"no object", "/pub_ext?topic=ext&ext=%5B%5D", "x", nil, 400, "E_INVALID_JSON_HEADER", topic.Message{}},
		{"a forged dead letter", "/pub_ext?topic=ext&ext=%7B%22dead_letter%22%3A%7B%7D%7D", "x", nil, 400, "E_INVALID_JSON_HEADER", topic.Message{}},
		{"a forged dead letter in a request header", "/pub?topic=ext", "x", []string{"X-NSQEXT-Dead_Letter", "{}"}, 400, "E_INVALID_JSON_HEADER", topic.Message{}},
		{"no object, with request headers", "/pub_ext?topic=ext&ext=null", "x", []string{"X-NSQEXT-K", "v"}, 400, "E_INVALID_JSON_HEADER", topic.Message{}},
		{"a header on a plain topic", "/pub_ext?topic=t&ext=%7B%22k%22%3A1%7D", "x", nil, 400, "E_EXT_NOT_SUPPORT", topic.Message{}},
		{"request headers on a plain topic", "/pub?topic=t", "x", []string{"X-NSQEXT-K", "v"}, 400, "E_EXT_NOT_SUPPORT", topic.Message{}},
		{"request headers of a batch on a plain topic", "/mpub?topic=t", "x", []string{"X-NSQEXT-K", "v"}, 400, "E_EXT_NOT_SUPPORT", topic.Message{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake("t")
			f.create("ext", meta.TopicConfig{Ext: true}.WithDefaults(1, false))
			f.receipt = func(publish.Request) *topic.Receipt {
				return &topic.Receipt{First: 3, Count: 1, Position: 62, RawSize: 31}
			}
			w := ask(serverOf(t, f).Handler(), "POST", test.target, test.body, test.headers...)
			answer := test.answer
			if test.status != 200 {
				answer = `{"message":"` + answer + `"}`
			}
			if got := w.Body.String(); w.Code != test.status || got != answer && got != answer+"\n" {
				t.Errorf("%d %s, want %d %s", w.Code, got, test.status, answer)
			}
			if w.Header().Get(nsqTypeHeader) != nsqType {
				t.Errorf("headers %v", w.Header())
			}
			if test.status != 200 {
				if len(f.published) > 0 {
					t.Errorf("published %+v", f.published)
				}
				return
			}
			checkPublished(t, f.published, []publish.Request{{Topic: f.published[0].Topic, Partition: host.AnyPartition, Messages: []topic.Message{test.stored}}})
		})
	}
}
