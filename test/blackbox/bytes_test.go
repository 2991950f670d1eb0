package blackbox

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
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
