package v1

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/internal/jsonbytes"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/admin/web"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/header"
	"github.com/brokerd/brokerd/pkg/operate"
)

// TestHeadersAreBounded tries headers of the maximum length of a record, and longer ones: their
// length would not fit its field, and they are not searched for reserved keys.
func TestHeadersAreBounded(t *testing.T) {
	for size, code := range map[int]failure.Code{header.Max: "", header.Max + 1: failure.TooLarge, 1<<16 + 10: failure.TooLarge} {
		text := `{"k":"` + strings.Repeat("x", size-len(`{"k":""}`)) + `"}`
		m, err := messageOf(api.Message{Text: "a", Headers: json.RawMessage(text)}, web.Limits{MaxMessage: 1})
		if got := api.CodeOf(err); err != nil && got != code || err == nil && (code != "" || len(m.Header) != size) {
			t.Errorf("%d bytes: %v, want %q", size, err, code)
		}
	}
}

func TestPeekErrorNamesTheLostRange(t *testing.T) {
	err := fmt.Errorf("t/0: %w", &commitlog.CorruptionError{Path: "t/0/0.log", Position: 7, From: 3, Next: 5})
	e := apiError(peekError(err))
	if want := (api.DamageRange{File: "t/0/0.log", Position: 7, From: 3, Next: 5}); e.Code != failure.Corrupt || e.Lost == nil || *e.Lost != want {
		t.Errorf("%+v", e)
	}
	if e := apiError(peekError(failure.Unreadable)); e.Code != failure.Unavailable || e.Lost != nil {
		t.Errorf("while another replica may hold the range: %+v", e)
	}
}

// A response of /v1 is UTF-8 whatever bytes a message has, and publishing what it shows gives the same bytes.
func TestForeignBytesArePeekedInBase64(t *testing.T) {
	for _, raw := range []string{"{\"a\":\"\xc1\"}", `{"a":"\ud800"}`} {
		shown := apiPeeked(operate.Peeked{Header: []byte(raw), Key: []byte("\xc2"), Dedup: []byte("\xc3"), Body: []byte("b")})
		text, err := json.Marshal(shown)
		if err != nil || jsonbytes.Check(text) != nil {
			t.Fatalf("%q, %v", text, err)
		}
		var back api.Peeked
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		m, err := messageOf(api.Message{Body: back.Body, KeyBase64: back.KeyBase64, DedupBase64: back.DedupBase64, HeadersBase64: back.HeadersBase64}, web.Limits{MaxMessage: 10})
		if err != nil || string(m.Header) != raw || string(m.Key) != "\xc2" || string(m.Dedup) != "\xc3" {
			t.Errorf("%q: %q, %q, %q, %v", raw, m.Header, m.Key, m.Dedup, err)
		}
	}
	if _, err := messageOf(api.Message{Text: "x", HeadersBase64: []byte("{")}, web.Limits{MaxMessage: 10}); err == nil {
		t.Error("headers in base64 that are not JSON are accepted")
	}
}

func TestForeignBytesAreRefusedInRequests(t *testing.T) {
	for _, body := range []string{"{\"key\":\"\xc1\"}", `{"key":"\ud800"}`} {
		var p api.Publish
		if err := decodeJSON([]byte(body), &p); err == nil {
			t.Errorf("%q is accepted with key %q", body, p.Key)
		}
	}
	var p api.Publish
	if err := decodeJSON([]byte(`{"key":"\ud83d\ude00"}`), &p); err != nil {
		t.Error(err)
	}
}
