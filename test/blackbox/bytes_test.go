package blackbox

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// pubExtended is PUB_EXT with a header, the text of a JSON object.
func pubExtended(topic, header, body string) string {
	return "PUB_EXT " + topic + "\n" + sized(string(binary.BigEndian.AppendUint16(nil, uint16(len(header))))+header+body) //nolint:gosec // short
}

// stringOf returns a JSON string of one byte. One that is not ASCII is not escaped, and not UTF-8.
func stringOf(c byte) string {
	if c < ' ' || c == '"' || c == '\\' {
		return fmt.Sprintf(`"\u%04x"`, c)
	}
	return `"` + string([]byte{c}) + `"`
}

// TestEveryByteIsADedupID publishes a message for each byte as its dedup id and key, over each interface that takes
// them, twice, and expects each once: an id that another one is mistaken for would be an acknowledged message that is
// not stored. The responses that show them are UTF-8, and publishing what they show is a duplicate.
func TestEveryByteIsADedupID(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.ctl(0, "topic", "create", "wire")
	n.ctl(0, "topic", "create", "http")
	n.ctl(0, "topic", "create", "v1", "--ext")
	w := n.dial()
	all := func() {
		for c := range 256 {
			id, b64 := byte(c), base64.StdEncoding.EncodeToString([]byte{byte(c)})
			w.send(pubExtended("wire", `{"##dedup_id":`+stringOf(id)+`,"##key":`+stringOf(id)+`}`, "x"))
			w.ok()
			n.post(fmt.Sprintf("/pub?topic=http&dedup=%%%02x&key=%%%02x", c, c), "x")
			headers := base64.StdEncoding.EncodeToString([]byte(`{"k":` + stringOf(id) + `}`))
			n.post("/v1/topics/v1/messages", `{"messages":[{"text":"x","dedup_base64":"`+b64+`","key_base64":"`+b64+`","headers_base64":"`+headers+`"}]}`)
		}
	}
	all()
	n.restart(n.kill)
	w = n.dial()
	all()
	for _, topic := range []string{"wire", "http", "v1"} {
		body := n.get("/v1/topics/" + topic + "/messages?n=1000")
		if !utf8.ValidString(body) {
			t.Errorf("%s: the response is not UTF-8", topic)
		}
		var list struct {
			Messages []struct {
				Dedup         string
				DedupBase64   []byte `json:"dedup_base64"`
				KeyBase64     []byte `json:"key_base64"`
				HeadersBase64 []byte `json:"headers_base64"`
			}
		}
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			t.Fatal(err)
		}
		if len(list.Messages) != 256 {
			t.Errorf("%s: %d messages are stored, want 256", topic, len(list.Messages))
		}
		ids := map[string]bool{}
		for i, m := range list.Messages {
			id := m.Dedup
			if m.DedupBase64 != nil {
				id = string(m.DedupBase64)
			}
			if ids[id] = true; i >= 128 && (len(m.KeyBase64) != 1 || m.KeyBase64[0] != byte(i)) {
				t.Errorf("%s: message %d has key %q", topic, i, m.KeyBase64)
			}
			if i >= 128 && topic == "v1" && string(m.HeadersBase64) != `{"k":`+stringOf(byte(i))+`}` {
				t.Errorf("%s: message %d has headers %q", topic, i, m.HeadersBase64)
			}
		}
		if len(ids) != 256 {
			t.Errorf("%s: %d different ids", topic, len(ids))
		}
	}
	w.send(pubExtended("v1", "{\"k\":\"\xff\"}", "y"))
	w.ok()
	if body := n.get("/v1/topics/v1/messages?n=1000"); !utf8.ValidString(body) {
		t.Error("a published header that is not UTF-8 breaks the response")
	}
}

// TestBoundedTopicIsNotFullOfFinishedMessages fills a topic that has a limit and a window for dedup ids, and finishes
// all of it: it accepts messages again at once, and the ids of the removed ones are known, also after a kill. The same
// holds for a topic of dead letters, whose window brokerd switches on itself, after they were purged.
func TestBoundedTopicIsNotFullOfFinishedMessages(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.ctl(0, "topic", "create", "full", "--max-bytes", "1MiB", "--dedup-window", "10m")
	n.ctl(0, "channel", "create", "full/c")
	n.ctl(0, "topic", "create", "dead", "--max-bytes", "1MiB", "--on-full", "reject")
	n.ctl(0, "topic", "create", "src")
	n.ctl(0, "channel", "create", "src/c", "--max-attempts", "1", "--dead-letter-topic", "dead")
	n.post("/pub?topic=full&dedup=a", "first")
	body := strings.Repeat("z", 60_000)
	fill := func(topic string) {
		for i := 0; n.http("POST", "/pub?topic="+topic, body).code == 200; i++ {
			if i > 100 {
				t.Fatalf("%s has no limit", topic)
			}
		}
	}
	accepts := func(topic string) {
		t.Helper()
		eventually(t, topic+" accepts messages after all are finished", func() bool { return n.http("POST", "/pub?topic="+topic, body).code == 200 })
	}
	fill("full")
	n.post("/channel/empty?topic=full&channel=c", "")
	accepts("full")

	n.post("/mpub?topic=src", strings.Repeat(strings.Repeat("x", 50_000)+"\n", 15))
	w := n.consumer("src", "c", 100, "{}")
	for range 15 {
		m := w.message()
		w.send("REQ " + m.id + " 0\n")
	}
	eventually(t, "the messages are dead letters", func() bool { return n.channel("dead", "redrive").Depth == 15 })
	fill("dead")
	n.post("/channel/empty?topic=dead&channel=redrive", "")
	accepts("dead")

	stored := func() int64 { topic, _ := n.topic("full"); return topic.Messages }
	for range 2 {
		before := stored()
		n.post("/pub?topic=full&dedup=a", "first")
		if after := stored(); after != before {
			t.Errorf("an id of a removed message is stored again: %d messages, before %d", after, before)
		}
		n.restart(n.kill)
	}
}
