package admin

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/web"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/topic"
)

// binaryBody returns the body of a binary mpub.
func binaryBody(messages ...string) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(messages)))
	for _, m := range messages {
		b = binary.BigEndian.AppendUint32(b, uint32(len(m)))
		b = append(b, m...)
	}
	return string(b)
}

func TestPubChecksInOrder(t *testing.T) {
	run(t, false, []exchange{
		{"stored", "POST /pub?topic=t", "hello", 200, "OK"},
		{"creates the topic", "POST /pub?topic=new", "hello", 200, "OK"},
		{"the largest message", "POST /pub?topic=t", "0123456789", 200, "OK"},
		{"one byte more", "POST /pub?topic=t", "0123456789a", 413, message("MSG_TOO_BIG")},
		{"too big before no topic", "POST /pub", "0123456789a", 413, message("MSG_TOO_BIG")},
		{"empty before no topic", "POST /pub", "", 400, message("MSG_EMPTY")},
		{"no topic", "POST /pub", "x", 400, message("MISSING_ARG_TOPIC")},
		{"empty topic", "POST /pub?topic=", "x", 400, message("INVALID_TOPIC")},
		{"bad topic before bad defer", "POST /pub?topic=a!&defer=x", "x", 400, message("INVALID_TOPIC")},
		{"64 bytes", "POST /pub?topic=" + strings.Repeat("a", 64), "x", 200, "OK"},
		{"65 bytes", "POST /pub?topic=" + strings.Repeat("a", 65), "x", 400, message("INVALID_TOPIC")},
		{"ephemeral", "POST /pub?topic=a%23ephemeral", "x", 200, "OK"},
		{"first value counts", "POST /pub?topic=t&topic=!", "x", 200, "OK"},
		{"bad query", "POST /pub?topic=%zz", "x", 400, message("INVALID_REQUEST")},
		{"defer", "POST /pub?topic=t&defer=1000", "x", 200, "OK"},
		{"defer none", "POST /pub?topic=t&defer=0", "x", 200, "OK"},
		{"longest defer", "POST /pub?topic=t&defer=3600000", "x", 200, "OK"},
		{"longer defer", "POST /pub?topic=t&defer=3600001", "x", 400, message("INVALID_DEFER")},
		{"defer past all numbers", "POST /pub?topic=t&defer=9223372036854775807", "x", 400, message("INVALID_DEFER")},
		{"defer of text", "POST /pub?topic=t&defer=abc", "x", 400, message("INVALID_DEFER")},
		{"empty defer", "POST /pub?topic=t&defer=", "x", 400, message("INVALID_DEFER")},
		{"negative defer", "POST /pub?topic=t&defer=-1", "x", 400, message("INVALID_DEFER")},
		{"bad partition", "POST /pub?topic=t&partition=x", "x", 400, message("INVALID_PARTITION")},
		{"form parameters are data", "POST /pub", "topic=t", 400, message("MISSING_ARG_TOPIC")},
		{"method", "GET /pub?topic=t", "", 405, message("METHOD_NOT_ALLOWED")},
		{"path", "POST /nope", "", 404, message("NOT_FOUND")},
	})
}

func TestMPub(t *testing.T) {
	run(t, false, []exchange{
		{"lines", "POST /mpub?topic=t", "a\nb\n", 200, "OK"},
		{"nothing", "POST /mpub?topic=t", "", 200, "OK"},
		{"long line", "POST /mpub?topic=t", "a\n0123456789a\n", 413, message("MSG_TOO_BIG")},
		{"long body", "POST /mpub?topic=t", strings.Repeat("a\n", 33), 413, message("BODY_TOO_BIG")},
		{"long body before no topic", "POST /mpub", strings.Repeat("a\n", 33), 413, message("BODY_TOO_BIG")},
		{"no topic", "POST /mpub", "", 400, message("MISSING_ARG_TOPIC")},
		{"bad topic", "POST /mpub?topic=%20", "", 400, message("INVALID_TOPIC")},
		{"binary", "POST /mpub?topic=t&binary=true", binaryBody("a", "bb"), 200, "OK"},
		{"binary 1", "POST /mpub?topic=t&binary=1", binaryBody("a"), 200, "OK"},
		{"binary by any word", "POST /mpub?topic=t&binary=yes", binaryBody("a"), 200, "OK"},
		{"binary by none", "POST /mpub?topic=t&binary", binaryBody("a"), 200, "OK"},
		{"binary false", "POST /mpub?topic=t&binary=false", "a\n", 200, "OK"},
		{"binary 0", "POST /mpub?topic=t&binary=0", "a\n", 200, "OK"},
		{"binary empty", "POST /mpub?topic=t&binary=1", "", 413, message("BAD_BODY")},
		{"binary short count", "POST /mpub?topic=t&binary=1", "\x00\x00\x00", 413, message("BAD_BODY")},
		{"binary no messages", "POST /mpub?topic=t&binary=1", "\x00\x00\x00\x00", 413, message("BAD_BODY")},
		{"binary negative count", "POST /mpub?topic=t&binary=1", "\xff\xff\xff\xff", 413, message("BAD_BODY")},
		{"binary more than fits", "POST /mpub?topic=t&binary=1", "\x00\x00\x00\x0d", 413, message("BAD_BODY")},
		{"binary count of what is missing", "POST /mpub?topic=t&binary=1", "\x00\x00\x00\x0c", 413, message("BAD_MESSAGE")},
		{"binary empty message", "POST /mpub?topic=t&binary=1", binaryBody("a", ""), 413, message("BAD_MESSAGE")},
		{"binary long message", "POST /mpub?topic=t&binary=1", binaryBody("0123456789a"), 413, message("BAD_MESSAGE")},
		{"binary truncated", "POST /mpub?topic=t&binary=1", binaryBody("abc")[:9], 413, message("BAD_MESSAGE")},
		{"binary negative size", "POST /mpub?topic=t&binary=1", "\x00\x00\x00\x01\xff\xff\xff\xff", 413, message("BAD_MESSAGE")},
		{"binary with more behind", "POST /mpub?topic=t&binary=1", binaryBody("a") + "b", 413, message("BAD_BODY")},
	})
}

func TestTopicsAndChannelsOfANode(t *testing.T) {
	exchanges := []exchange{
		{"create", "POST /topic/create?topic=new", "", 200, ""},
		{"create again", "POST /topic/create?topic=t", "", 200, ""},
		{"create invalid", "POST /topic/create?topic=!", "", 400, message("INVALID_TOPIC")},
		{"delete", "POST /topic/delete?topic=t", "", 200, ""},
		{"delete invalid", "POST /topic/delete?topic=!", "", 404, message("TOPIC_NOT_FOUND")},
		{"empty", "POST /topic/empty?topic=t", "", 200, ""},
		{"empty invalid", "POST /topic/empty?topic=!", "", 400, message("INVALID_TOPIC")},
		{"pause", "POST /topic/pause?topic=t", "", 200, ""},
		{"pause invalid", "POST /topic/pause?topic=!", "", 404, message("TOPIC_NOT_FOUND")},
		{"unpause", "POST /topic/unpause?topic=t", "", 200, ""},
		{"unpause invalid", "POST /topic/unpause?topic=!", "", 404, message("TOPIC_NOT_FOUND")},
		{"create channel", "POST /channel/create?topic=t&channel=new", "", 200, ""},
		{"create channel again", "POST /channel/create?topic=t&channel=c", "", 200, ""},
	}
	for _, path := range []string{"/topic/create", "/topic/delete", "/topic/empty", "/topic/pause", "/topic/unpause"} {
		exchanges = append(
			exchanges,
			exchange{path + " without topic", "POST " + path, "", 400, message("MISSING_ARG_TOPIC")},
			exchange{path + " of form data", "POST " + path, "topic=t", 400, message("MISSING_ARG_TOPIC")},
			exchange{path + " by GET", "GET " + path + "?topic=t", "", 405, message("METHOD_NOT_ALLOWED")},
			exchange{path + " bad query", "POST " + path + "?topic=%", "", 400, message("INVALID_REQUEST")},
		)
		if path != "/topic/create" {
			exchanges = append(exchanges, exchange{path + " unknown", "POST " + path + "?topic=none", "", 404, message("TOPIC_NOT_FOUND")})
		}
	}
	for _, path := range []string{"/channel/create", "/channel/delete", "/channel/empty", "/channel/pause", "/channel/unpause"} {
		exchanges = append(
			exchanges,
			exchange{path, "POST " + path + "?topic=t&channel=c", "", 200, ""},
			exchange{path + " without topic", "POST " + path, "", 400, message("MISSING_ARG_TOPIC")},
			exchange{path + " of no topic", "POST " + path + "?topic=!", "", 400, message("INVALID_ARG_TOPIC")},
			exchange{path + " without channel", "POST " + path + "?topic=t", "", 400, message("MISSING_ARG_CHANNEL")},
			exchange{path + " of no channel", "POST " + path + "?topic=t&channel=!", "", 400, message("INVALID_ARG_CHANNEL")},
			exchange{path + " of an unknown topic", "POST " + path + "?topic=none&channel=c", "", 404, message("TOPIC_NOT_FOUND")},
		)
		if path != "/channel/create" {
			exchanges = append(exchanges, exchange{path + " unknown", "POST " + path + "?topic=t&channel=x", "", 404, message("CHANNEL_NOT_FOUND")})
		}
	}
	run(t, false, exchanges)
}

// A request for a missing partition is refused, and so is one that would affect more than the
// partition it names.
func TestPartitionsOfRequests(t *testing.T) {
	f := newFake("one")
	f.create("two", meta.TopicConfig{Partitions: 2}.WithDefaults(1, false))
	f.withChannel("one", "c").withChannel("two", "c")
	s := serverOf(t, f)
	type surface struct {
		h     http.Handler
		paths []string
	}
	node := surface{s.Handler(), []string{
		"POST /topic/empty", "POST /topic/pause", "POST /topic/unpause", "POST /topic/delete",
		"POST /channel/create", "POST /channel/empty", "POST /channel/pause", "POST /channel/unpause", "POST /channel/delete",
	}}
	lookup := surface{s.LookupHandler(), []string{"POST /topic/delete", "POST /channel/delete"}}
	for _, on := range []surface{node, lookup} {
		for _, path := range on.paths {
			method, target, _ := strings.Cut(path, " ")
			for _, tt := range []struct {
				query string
				code  int
				want  string
			}{
				{"topic=one&channel=c&partition=1", 404, "PARTITION_NOT_FOUND"},
				{"topic=two&channel=c&partition=2", 404, "PARTITION_NOT_FOUND"},
				{"topic=two&channel=c&partition=x", 400, "INVALID_PARTITION"},
				{"topic=two&channel=c&partition=1", 400, "WHOLE_TOPIC_ONLY"},
			} {
				if w := ask(on.h, method, target+"?"+tt.query, ""); w.Code != tt.code || !strings.Contains(w.Body.String(), tt.want) {
					t.Errorf("%s?%s: got %d %s", target, tt.query, w.Code, w.Body)
				}
			}
		}
	}
	if len(f.calls) != 0 {
		t.Errorf("it did %v", f.calls)
	}
	for _, query := range []string{"topic=one&channel=c&partition=0", "topic=two&channel=c&partition=-1", "topic=two&channel=c&partition=**"} {
		if w := ask(node.h, "POST", "/channel/empty?"+query, ""); w.Code != 200 {
			t.Errorf("%s: got %d %s", query, w.Code, w.Body)
		}
	}
	for target, code := range map[string]int{
		"/stats?format=json&topic=two&partition=1": 200, "/stats?format=json&topic=two&partition=2": 404,
		"/stats?format=json&topic=two&partition=x": 400, "/stats?format=json&topic=none&partition=7": 200,
		"/lookup?topic=two&partition=1": 200, "/lookup?topic=two&partition=2": 404,
	} {
		if w := ask(node.h, "GET", target, ""); w.Code != code {
			t.Errorf("%s: got %d %s", target, w.Code, w.Body)
		}
	}
}

func TestPubPassesItsParameters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake("t")
		h := serverOf(t, f).Handler()
		ask(h, "POST", "/pub?topic=t&partition=3&key=k&defer=1500&dedup=d&ttl=60000", "body")
		ask(h, "POST", "/mpub?topic=t", "\na\n\nbb\r\nc")
		ask(h, "POST", "/mpub?topic=t&key=k&dedup=d", "a\nb")
		want := []publish.Request{
			{Topic: "t", Partition: 3, Messages: messages("body")},
			{Topic: "t", Partition: host.AnyPartition, Messages: messages("a", "bb\r", "c")},
			{Topic: "t", Partition: host.AnyPartition, Messages: messages("a", "b"), Route: []byte("d")},
		}
		one := &want[0].Messages[0]
		one.Delay, one.TTL, one.Key, one.Dedup = 1500*time.Millisecond, time.Minute, []byte("k"), []byte("d")
		for i := range want[2].Messages {
			m := &want[2].Messages[i]
			m.Key, m.Dedup = []byte("k"), fmt.Appendf(nil, "d/%d", i)
		}
		checkPublished(t, f.published, want)
	})
}

func TestFailedPublishReportsItsOutcome(t *testing.T) {
	for _, test := range []struct {
		err    error
		status int
		word   string
	}{
		{failure.ShuttingDown, 503, "EXITING"},
		{failure.QueueFull, 503, "BUSY"},
		{fate.Refuse("too few in sync"), 503, "NOT_WRITABLE"},
		{fate.Mark(syscall.ENOSPC, fate.Refused), 503, "DISK_FULL"},
		{failure.TooFewISR, 503, "NOT_WRITABLE"},
		{failure.DiskFull, 503, "DISK_FULL"},
		{failure.NoLeader, 503, "NO_LEADER"},
		{failure.NotLeading, 503, "NOT_LEADING"},
		{errors.New("term ended"), 500, "OUTCOME_UNKNOWN"},
		{failure.Unconfirmed, 500, "OUTCOME_UNKNOWN"},
		{fate.Mark(failure.TooFewISR, fate.Uncertain), 500, "OUTCOME_UNKNOWN"}, // it was sent, and refused on the retry
		{fate.Mark(failure.DiskFull, fate.Uncertain), 500, "OUTCOME_UNKNOWN"},
		{syscall.ENOSPC, 500, "OUTCOME_UNKNOWN"},
		{fate.Mark(context.DeadlineExceeded, fate.Refused), 503, "NOT_WRITABLE"}, // the timeout passed before it was sent
		{fate.Mark(errors.New("bad sum"), fate.Corrupt), 500, "CORRUPT"},
		{failure.PartitionNotFound, 404, "PARTITION_NOT_FOUND"},
		{failure.PartitionNeeded, 400, "PARTITION_NEEDED"},
		{failure.MessageTooBig, 413, "MSG_TOO_BIG"},
	} {
		f := newFake("t")
		f.receipt = func(publish.Request) *topic.Receipt { return &topic.Receipt{Err: test.err} }
		w := ask(serverOf(t, f).Handler(), "POST", "/pub?topic=t", "x")
		if w.Code != test.status || w.Body.String() != message(test.word) {
			t.Errorf("%v: got %d %s, want %d %s", test.err, w.Code, w.Body, test.status, test.word)
		}
		w = ask(serverOf(t, f).Handler(), "POST", "/v1/topics/t/messages", "x")
		if want := `"fate":"` + fate.Of(test.err).String(); w.Code != test.status || !strings.Contains(w.Body.String(), want) {
			t.Errorf("/v1: %v: got %d %s, want %d and %s", test.err, w.Code, w.Body, test.status, want)
		}
	}
}

// A change of the metadata whose leader changed is no defect of the node.
func TestUnknownOutcomeOfChangeIsUnavailable(t *testing.T) {
	for path, want := range map[string]string{"/topic/create?topic=new": message("CHANGE_UNKNOWN"), "/v1/topics": `"fate":"uncertain"`} {
		for _, err := range []error{failure.CommandUnknown, failure.Behind} {
			f := newFake()
			f.fail = fmt.Errorf("%w: connection lost", err)
			w := ask(serverOf(t, f).Handler(), "POST", path, `{"name":"new"}`, "Content-Type", "application/json")
			if w.Code != 503 || !strings.Contains(w.Body.String(), want) || len(f.fates) != 1 || f.fates[0] != fate.Uncertain {
				t.Errorf("%s: got %d %s, want %s", path, w.Code, w.Body, want)
			}
		}
	}
}

// A publish whose topic cannot be created has stored nothing, although the topic may be there.
func TestPublishToUncreatedTopicIsRefused(t *testing.T) {
	for path, want := range map[string]string{"/pub?topic=new": message("NOT_WRITABLE"), "/mpub?topic=new": message("NOT_WRITABLE"), "/v1/topics/new/messages": `"code":"not_writable"`} {
		f := newFake()
		f.fail = fate.Mark(failure.CommandUnknown, fate.Refused)
		if w := ask(serverOf(t, f).Handler(), "POST", path, "x"); w.Code != 503 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: got %d %s, want %s", path, w.Code, w.Body, want)
		}
	}
}

func TestPublishWithoutAnAnswerIsUncertain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake("t")
		f.receipt = func(publish.Request) *topic.Receipt { return nil }
		start := time.Now()
		w := ask(serverOf(t, f).Handler(), "POST", "/pub?topic=t", "x")
		if w.Code != 500 || w.Body.String() != message("OUTCOME_UNKNOWN") {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
		if waited := time.Since(start); waited != web.DefaultPublishTimeout {
			t.Errorf("waited %v", waited)
		}
	})
}

func TestPublishEndsWithItsRequest(t *testing.T) {
	f := newFake("t")
	f.receipt = func(publish.Request) *topic.Receipt { return nil }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequest("POST", "/pub?topic=t", strings.NewReader("x")).WithContext(ctx)
	w := httptest.NewRecorder()
	serverOf(t, f).Handler().ServeHTTP(w, r)
	if w.Code != 500 || w.Body.String() != message("OUTCOME_UNKNOWN") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestPublishToMissingTopicIsNotFoundWithoutAutoCreation(t *testing.T) {
	f := newFake()
	f.noCreate = true
	h := serverOf(t, f).Handler()
	for _, path := range []string{"/pub?topic=t", "/mpub?topic=t"} {
		if w := ask(h, "POST", path, "x"); w.Code != 404 || w.Body.String() != message("TOPIC_NOT_FOUND") {
			t.Errorf("%s: got %d %s", path, w.Code, w.Body)
		}
	}
}

func TestInvalidDeferKeepsCreatedTopic(t *testing.T) {
	f := newFake()
	ask(serverOf(t, f).Handler(), "POST", "/pub?topic=new&defer=x", "x")
	if _, err := f.Topic("new"); err != nil {
		t.Error("the topic was not made before the delay was checked")
	}
}

func TestConcurrentCreateIsNoError(t *testing.T) {
	f := newFake()
	f.fail = failure.TopicExists
	if w := ask(serverOf(t, f).Handler(), "POST", "/topic/create?topic=t", ""); w.Code != 200 {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestAllBodiesShareABudget(t *testing.T) {
	f := newFake("t")
	s := serverOf(t, f, func(o *Options) { o.Memory = limit.NewMemory(1500) }) // one buffer of the minimum size
	f.receipt = func(publish.Request) *topic.Receipt {
		if w := ask(s.Handler(), "POST", "/pub?topic=t", "y"); w.Code != 503 || w.Body.String() != message("BUSY") {
			t.Errorf("while another body is held: got %d %s", w.Code, w.Body)
		}
		return &topic.Receipt{}
	}
	if w := ask(s.Handler(), "POST", "/pub?topic=t", "x"); w.Code != 200 {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	f.receipt = nil
	if w := ask(s.Handler(), "POST", "/pub?topic=t", "x"); w.Code != 200 {
		t.Errorf("after both: got %d %s", w.Code, w.Body)
	}
}

func TestTLSRequiredClosesPlainHTTP(t *testing.T) {
	s := serverOf(t, newFake("t"), func(o *Options) { o.TLSRequired = true })
	for _, path := range []string{"/ping", "/nope", "/v1/topics", "/metrics", "/livez/", "/readyz/x"} {
		w := ask(s.Handler(), "GET", path, "")
		if w.Code != 403 || w.Body.String() != `{"message":"TLS_REQUIRED","https_port":4152}` {
			t.Errorf("%s: got %d %s", path, w.Code, w.Body)
		}
		if w.Header().Get(nsqTypeHeader) != nsqType {
			t.Errorf("%s: no %s", path, nsqTypeHeader)
		}
	}
	if w := ask(s.Handler(), "GET", "https://10.0.0.1:4152/ping", ""); w.Code != 200 {
		t.Errorf("with TLS: got %d", w.Code)
	}
	if w := ask(s.LookupHandler(), "GET", "/ping", ""); w.Code != 200 {
		t.Errorf("lookup: got %d", w.Code)
	}
}

// Probes and scrapers have no client certificates, and often no TLS.
func TestProbesNeedNoTLS(t *testing.T) {
	scrapes := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("figures")) })
	for _, open := range []bool{false, true} {
		h := serverOf(t, newFake("t"), func(o *Options) { o.TLSRequired, o.PlainMetrics, o.Metrics = true, open, scrapes }).Handler()
		for _, path := range []string{"/livez", "/healthz", "/readyz", "/readyz?exclude=isr", "/startupz"} {
			if w := ask(h, "GET", path, ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"ok":true`) {
				t.Errorf("%s: got %d %s", path, w.Code, w.Body)
			}
		}
		want := map[bool]int{false: 403, true: 200}[open]
		if w := ask(h, "GET", "/metrics", ""); w.Code != want {
			t.Errorf("metrics, open %v: got %d", open, w.Code)
		}
		for _, path := range []string{"/stats", "/metrics/detailed"} {
			if w := ask(h, "GET", path, ""); w.Code != 403 {
				t.Errorf("%s: got %d", path, w.Code)
			}
		}
	}
}

func TestCrossSiteRequestsChangeNothing(t *testing.T) {
	f := newFake("t")
	h := serverOf(t, f).Handler()
	for _, request := range []string{"POST /topic/delete?topic=t", "DELETE /v1/topics/t", "POST /v1/topics/t/empty", "POST /pub?topic=t", "POST /mpub?topic=t"} {
		method, target, _ := strings.Cut(request, " ")
		w := ask(h, method, target, "", "Sec-Fetch-Site", "cross-site")
		if w.Code != 403 || !strings.Contains(strings.ToLower(w.Body.String()), "cross") {
			t.Errorf("%s: got %d %s", request, w.Code, w.Body)
		}
	}
	if len(f.calls) != 0 {
		t.Errorf("it did %v", f.calls)
	}
	if w := ask(h, "POST", "/pub?topic=t", "x"); w.Code != 200 { // not a browser
		t.Errorf("pub: got %d", w.Code)
	}
}

// panicking is a broker that panics.
type panicking struct{ *fake }

func (panicking) Topics() []*meta.Topic { panic("BUG: on purpose") }

func TestPanicIsAnInternalError(t *testing.T) {
	s := serverOf(t, newFake(), func(o *Options) { o.Lookup.Directory = panicking{newFake()} })
	w := ask(s.Handler(), "GET", "/topics", "")
	if w.Code != 500 || w.Body.String() != message("INTERNAL_ERROR") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestEveryRequestIsObservedUnderItsPattern(t *testing.T) {
	var seen []web.Exchange
	s := serverOf(t, newFake("t"), func(o *Options) { o.Observe = func(e web.Exchange) { seen = append(seen, e) } })
	ask(s.Handler(), "GET", "/ping", "")
	ask(s.Handler(), "GET", "/config/some_option", "")
	ask(s.Handler(), "GET", "/v1/topics/t", "")
	ask(s.Handler(), "GET", "/v1/topics/none", "")
	ask(s.Handler(), "GET", "/nope/x", "")
	ask(s.Handler(), "POST", "/pub", "x")
	got := make([]web.Exchange, 0, len(seen))
	for _, e := range seen {
		got = append(got, web.Exchange{Route: e.Route, Status: e.Status})
	}
	want := []web.Exchange{
		{Route: "/ping", Status: 200},
		{Route: "/config/", Status: 400},
		{Route: "/v1/topics/{topic}", Status: 200},
		{Route: "/v1/topics/{topic}", Status: 404},
		{Route: "other", Status: 404},
		{Route: "/pub", Status: 400},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestNewNeedsABroker(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("no error")
	}
}

func TestHeadIsGetWithoutABody(t *testing.T) {
	srv := httptest.NewServer(serverOf(t, newFake()).Handler())
	defer srv.Close()
	resp, err := http.Head(srv.URL + "/ping")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 || resp.ContentLength != 2 {
		t.Errorf("got %d with %d bytes", resp.StatusCode, resp.ContentLength)
	}
}

// Decoding a body, or encoding an answer, takes many times its size.
func TestListsAndPeeksAreCharged(t *testing.T) {
	f := newFake("t")
	m := limit.NewMemory(64 << 20)
	s := serverOf(t, f, func(o *Options) { o.Memory, o.Limits.MaxBody, o.Limits.MaxMessage = m, 1<<20, 1<<10 })
	var held int64
	f.receipt = func(publish.Request) *topic.Receipt {
		held = m.Usage().Uses[limit.Bodies]
		return &topic.Receipt{}
	}
	const messages, least = 10_000, 10_000 * 64
	lines := strings.Repeat("x\n", messages)
	counted := "\x00\x00\x27\x10" + strings.Repeat("\x00\x00\x00\x01x", messages)
	list := `{"messages":[` + strings.Repeat(`{"text":"x"},`, messages-1) + `{"text":"x"}]}`
	for _, tt := range []struct{ target, body string }{{"/mpub?topic=t", lines}, {"/mpub?topic=t&binary=true", counted}, {"/v1/topics/t/messages", list}} {
		held = 0
		w := ask(s.Handler(), "POST", tt.target, tt.body, "Content-Type", "application/json")
		if w.Code != 200 || held < least+int64(len(tt.body)) {
			t.Errorf("%s: got %d, with %d bytes held", tt.target, w.Code, held)
		}
	}
	others := m.Share(limit.Answers)
	for others.Try(1 << 20) {
	}
	if w := ask(s.Handler(), "GET", "/v1/topics/t/messages", ""); w.Code != 503 || !strings.Contains(w.Body.String(), "busy") {
		t.Errorf("a peek without memory: got %d %s", w.Code, w.Body)
	}
	others.Close()
	if w := ask(s.Handler(), "GET", "/v1/topics/t/messages", ""); w.Code != 200 || f.peeked.Bytes != peekBytes {
		t.Errorf("a peek: got %d, of %d bytes", w.Code, f.peeked.Bytes)
	}
	f.fail = failure.Unreachable
	ask(s.Handler(), "GET", "/v1/topics/t/messages", "")
	if u := m.Usage(); u.Used != 0 {
		t.Errorf("at the end %+v", u)
	}
}

func TestInvalidMessageOptionsAreRefused(t *testing.T) {
	f := newFake("t")
	h := serverOf(t, f).Handler()
	for query, word := range map[string]string{
		"key=" + strings.Repeat("k", 256):  "INVALID_KEY",
		"dedup=" + strings.Repeat("d", 65): "INVALID_DEDUP",
		"ttl=-1":                           "INVALID_TTL",
		"ttl=x":                            "INVALID_TTL",
		"ttl=9999999999999999":             "INVALID_TTL",
	} {
		for _, path := range []string{"/pub", "/mpub"} {
			if w := ask(h, "POST", path+"?topic=t&"+query, "body"); w.Code != 400 || !strings.Contains(w.Body.String(), word) {
				t.Errorf("%s %.20s: got %d %s", path, query, w.Code, w.Body)
			}
		}
	}
	if len(f.published) > 0 {
		t.Errorf("%d were published", len(f.published))
	}
}
