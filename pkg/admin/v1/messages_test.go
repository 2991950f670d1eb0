package v1

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/admin/web"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/header"
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
