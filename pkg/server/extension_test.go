package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// batch is the body of a batch of messages, with its size.
func batch(messages ...string) string {
	return strings.TrimPrefix(mpub("", messages...), "MPUB \n")
}

// placed is the answer to a publish whose publisher requested the position.
func placed(partition int, first seq.Offset, traceID string, rawSize byte) string {
	id := uint64(fakeIDs.ID(seq.NewMessageID(partition, first)))
	binary := make([]byte, 8)
	for i := range binary {
		binary[i] = byte(id >> (8 * (7 - i)))
	}
	return "\x00\x00\x00\x22\x00\x00\x00\x00OK" + string(binary) + traceID + "\x00\x00\x00\x00\x00\x00\x00\x7c" + "\x00\x00\x00" + string(rune(rawSize))
}

// The extended publish commands and their answers, byte by byte.
func TestExtensionsPublishGolden(t *testing.T) {
	const (
		trace = "\x11\x22\x33\x44\x55\x66\x77\x88"
		ok    = "\x00\x00\x00\x06\x00\x00\x00\x00OK"
		head  = `{"k": "v"}`
	)
	for _, test := range []struct {
		name, send, answer string
		stored             []topic.Message
	}{
		{
			"PUB_TRACE", "PUB_TRACE t 0\n\x00\x00\x00\x0d" + trace + "hello", placed(0, 0, trace, 35),
			[]topic.Message{{TraceID: 0x1122334455667788, Body: []byte("hello")}},
		},
		{
			"PUB_TRACE to another partition", "PUB_TRACE t 3\n\x00\x00\x00\x09" + trace + "x", placed(3, 0, trace, 35),
			[]topic.Message{{TraceID: 0x1122334455667788, Body: []byte("x")}},
		},
		{
			"MPUB_TRACE", "MPUB_TRACE t -1\n" + batch(trace+"a", strings.Repeat("\x00", 8)+"b"),
			placed(0, 0, strings.Repeat("\x00", 8), 70),
			[]topic.Message{{TraceID: 0x1122334455667788, Body: []byte("a")}, {Body: []byte("b")}},
		},
		{
			"PUB_EXT", "PUB_EXT ext 0\n\x00\x00\x00\x11\x00\x0a" + head + "hello", ok,
			[]topic.Message{{Header: []byte(head), Body: []byte("hello")}},
		},
		{
			"PUB_EXT with nothing in the header", "PUB_EXT ext\n\x00\x00\x00\x05\x00\x02{}x", ok,
			[]topic.Message{{Header: []byte("{}"), Body: []byte("x")}},
		},
		{
			"PUB_EXT with a trace id", "PUB_EXT ext 0\n" + sized("\x00\x12"+`{"##trace_id":"7"}`+"x"),
			placed(0, 0, "\x00\x00\x00\x00\x00\x00\x00\x07", 35),
			[]topic.Message{{TraceID: 7, Header: []byte(`{"##trace_id":"7"}`), Body: []byte("x")}},
		},
		{
			"MPUB_EXT", "MPUB_EXT ext 0\n" + batch("\x00\x0a"+head+"a", "\x00\x00b", "\x00\x12"+`{"##trace_id":"7"}`+"c"), ok,
			[]topic.Message{
				{Header: []byte(head), Body: []byte("a")},
				{Body: []byte("b")},
				{TraceID: 7, Header: []byte(`{"##trace_id":"7"}`), Body: []byte("c")},
			},
		},
		{
			"PUB_EXT with a key instead of a partition, on an ordered topic", "PUB_EXT sorted\n" + sized("\x00\x0d"+`{"##key":"k"}`+"x"), ok,
			[]topic.Message{{Key: []byte("k"), Body: []byte("x")}},
		},
		{"PUB with a partition", "PUB t 2\n" + sized("x"), ok, []topic.Message{{Body: []byte("x")}}},
		{"PUB with -1", "PUB t -1\n" + sized("x"), ok, []topic.Message{{Body: []byte("x")}}},
		{"MPUB with a partition", "MPUB t 2\n" + batch("x", "y"), ok, []topic.Message{{Body: []byte("x")}, {Body: []byte("y")}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHarness(t, Options{})
			w := h.dial(t)
			w.send(test.send)
			w.expectBytes(test.answer)
			name := strings.TrimSuffix(strings.Fields(test.send)[1], "\n")
			got := h.broker.stored(name)
			for i := range got {
				if len(got[i].Header) == 0 {
					got[i].Header = nil
				}
			}
			if diff := cmp.Diff(test.stored, got); diff != "" {
				t.Error(diff)
			}
			w.send("NOP\nPUB " + name + "\n" + sized("after"))
			w.expect("OK")
		})
	}
}

// A refused publish stores nothing. After a non-fatal refusal the connection continues with the
// next command.
func TestExtensionsRefuse(t *testing.T) {
	for _, test := range []struct {
		name, send, want string
		goesOn           bool
	}{
		{"no topic", "PUB_TRACE\n", "E_INVALID insufficient number of parameters", false},
		{"a partition that is no number", "PUB_EXT ext x\n" + sized("\x00\x02{}x"), "E_BAD_PARTITION topic partition is not valid: x", false},
		{"a topic that is missing", "PUB_TRACE missing 0\n" + sized("12345678x"), "E_TOPIC_NOT_EXIST ", false},
		{"a topic that cannot be", "PUB_TRACE b@d 0\n" + sized("12345678x"), "E_TOPIC_NOT_EXIST ", false},
		{"a partition that is missing", "MPUB_TRACE t 4\n" + batch("12345678x"), "E_TOPIC_NOT_EXIST ", false},
		{"a partition that is missing, of a plain PUB", "PUB t 4\n" + sized("x"), `E_BAD_PARTITION PUB topic "t" does not have the partition`, false},
		{"a partition that no topic has", "PUB_TRACE t 99999999999999999999\n" + sized("12345678x"), "E_TOPIC_NOT_EXIST ", false},
		{"an ordered topic without a partition", "PUB_TRACE ordered\n" + sized("12345678x"), `E_BAD_PARTITION PUB_TRACE to topic "ordered" needs a partition or a key`, false},
		{"no size", "PUB_TRACE t 0\n\x00\x00\x00\x00", "E_BAD_BODY invalid body size 0", false},
		{"a negative size", "PUB_EXT ext 0\n\xff\xff\xff\xff", "E_BAD_BODY invalid body size -1", false},
		{"a message too big", "PUB_TRACE t 0\n\x00\x00\x00\x65", "E_BAD_MESSAGE message too big 101 > 100", false},
		{"a batch too big", "MPUB_EXT ext 0\n\x00\x00\x00\xc9", "E_BAD_BODY body too big 201 > 200", false},
		{"a trace id alone", "PUB_TRACE t 0\n" + sized("12345678"), "E_BAD_BODY invalid body size 8 with trace id enabled", false},
		{"a trace id alone in a batch", "MPUB_TRACE t 0\n" + batch("12345678x", "1234567"), "E_BAD_BODY invalid body size 7 with trace id enabled", false},
		{"no room for a header's length", "PUB_EXT ext 0\n" + sized("\x00\x00"), "E_BAD_BODY invalid body size 2 with ext json header enabled", false},
		{"a header without a message", "PUB_EXT ext 0\n" + sized("\x00\x02{}"), "E_BAD_BODY invalid body size 4 in ext json header content length", false},
		{"a header that is too short", "PUB_EXT ext 0\n" + sized("\x00\x09{}x"), "E_BAD_BODY invalid body size 5 in ext json header content length", false},
		{"no header", "PUB_EXT ext 0\n" + sized("\x00\x00x"), "E_INVALID_JSON_HEADER fail to parse json header: not a JSON object", true},
		{"a forged dead letter", "PUB_EXT ext 0\n" + sized("\x00\x12{\"dead_letter\":{}}x"), "E_INVALID_JSON_HEADER fail to parse json header: header is written by the broker and cannot be published: dead_letter", true},
		{"a header that is null", "PUB_EXT ext 0\n" + sized("\x00\x04nullx"), "E_INVALID_JSON_HEADER fail to parse json header: not a JSON object", true},
		{"a trace id that is a number", "PUB_EXT ext 0\n" + sized("\x00\x10"+`{"##trace_id":7}`+"x"), "INVALID_TRACE_ID trace id is not a string of decimal digits: 7", true},
		{"a header on a plain topic", "PUB_EXT t 0\n" + sized("\x00\x09{\"k\":\"v\"}x"), "E_EXT_NOT_SUPPORT ext content not supported in topic t", true},
		{"one bad header of a batch", "MPUB_EXT ext 0\n" + batch("\x00\x02{}x", "\x00\x02[]y"), "", true},
		{"a leader that has moved", "PUB_TRACE moved 0\n" + sized("12345678x"), "E_FAILED_ON_NOT_LEADER ", true},
		{"too few replicas", "MPUB_TRACE closed 0\n" + batch("12345678x"), "E_FAILED_ON_NOT_WRITABLE ", true},
		{"too few replicas, of a plain PUB", "PUB closed 0\n" + sized("x"), "E_FAILED_ON_NOT_WRITABLE ", true},
		{"too much waiting", "MPUB_TRACE busy 0\n" + batch("12345678x"), "E_MPUB_FAILED MPUB_TRACE failed, refused: too many bytes waiting to be written", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHarness(t, Options{MaxMessageBytes: 100, MaxBodyBytes: 200})
			w := h.dial(t)
			w.send(test.send + "PUB after\n" + sized("x"))
			got := w.frame()
			if want := test.want; got != want && (want != "" || !strings.HasPrefix(got, "E_INVALID_JSON_HEADER ")) {
				t.Errorf("got %q, want %q", got, want)
			}
			next := "EOF"
			if test.goesOn {
				next = "OK"
			}
			if got := w.frame(); got != next {
				t.Errorf("then %q, want %q", got, next)
			}
			for _, name := range []string{"t", "ext", "sorted"} {
				if stored := h.broker.stored(name); len(stored) > 0 {
					t.Errorf("%s has %d messages", name, len(stored))
				}
			}
		})
	}
}

func TestReservedKeysOfPlainTopicsNeedASetting(t *testing.T) {
	h := newHarness(t, Options{AllowExtCompatible: true})
	w := h.dial(t)
	for header, want := range map[string]string{
		`{"##client_dispatch_tag":"a"}`: "OK", `{}`: "OK",
		`{"##client_dispatch_tag":"a","k":1}`: "E_EXT_NOT_SUPPORT ext content not supported in topic t",
	} {
		w.send("PUB_EXT t 0\n" + sized(fmt.Sprintf("\x00%c%sx", len(header), header)))
		w.expect(want)
	}
	for _, m := range h.broker.stored("t") {
		if len(m.Header) > 0 {
			t.Errorf("stored %q", m.Header)
		}
	}
}

func TestHeaderSetsKeyDedupIDAndTTL(t *testing.T) {
	h := newHarness(t, Options{})
	w := h.dial(t)
	for header, want := range map[string]string{
		`{"##key":"k","##dedup_id":"d","##ttl":"9"}`: "OK",
		`{"##key":"k","other":"d"}`:                  "E_EXT_NOT_SUPPORT ext content not supported in topic t",
		`{"##dedup-id":"d"}`:                         `E_INVALID_JSON_HEADER fail to parse json header: invalid reserved key: "##dedup-id" is not one of ##trace_id, ##client_dispatch_tag, ##key, ##dedup_id, ##ttl`,
		`{"##dedup_id":""}`:                          "E_INVALID_JSON_HEADER fail to parse json header: invalid reserved key: ##dedup_id must be a string of 1 to 64 bytes",
	} {
		w.send("PUB_EXT t 0\n" + sized(fmt.Sprintf("\x00%c%sx", len(header), header)))
		w.expect(want)
	}
	stored := h.broker.stored("t")
	if len(stored) != 1 {
		t.Fatalf("%d are stored", len(stored))
	}
	if m := stored[0]; string(m.Key) != "k" || string(m.Dedup) != "d" || m.TTL != 9*time.Millisecond || m.Header != nil {
		t.Errorf("%+v", m)
	}
}

// Every topic accepts a header without other keys than the last three and the trace id: none of them is needed.
func TestPlainTopicTakesAnyOptions(t *testing.T) {
	h := newHarness(t, Options{})
	w := h.dial(t)
	for _, header := range []string{`{}`, `{"##ttl":0}`, `{"##ttl":"0","##key":"k"}`, `{"##dedup_id":"d"}`} {
		w.send("PUB_EXT t 0\n" + sized(fmt.Sprintf("\x00%c%sx", len(header), header)))
		w.expect("OK")
	}
	w.send("PUB_EXT t 0\n" + sized("\x00\x12"+`{"##trace_id":"5"}`+"x"))
	if got := w.frame(); !strings.HasPrefix(got, "OK") || len(got) != 30 {
		t.Errorf("a trace id alone: %q", got)
	}
	for _, m := range h.broker.stored("t") {
		if m.Header != nil {
			t.Errorf("stored %q", m.Header)
		}
	}
}
