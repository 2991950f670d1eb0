package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

// A hint of what an unknown name was meant to be names nothing that its reader may not know of.
func TestHintsNameWhatTheCallerMayKnow(t *testing.T) {
	f := newFake("t2").withChannel("t2", "c2")
	s, a, tokens := guardedServer(t, f)
	for user, rules := range map[string][]access.Rule{
		"manager":  {{Right: access.Manage, Topic: "t2x"}},
		"consumer": {{Right: access.Subscribe, Topic: "t2", Channel: "c2x"}, {Right: access.Subscribe, Topic: "t2x", Channel: "*"}},
		"letters":  {{Right: access.Manage, Topic: "t*"}},
		"reader":   {{Right: access.Manage, Topic: "t2*"}},
	} {
		if err := a.Change(t.Context(), access.Change{Verb: access.Grant, User: user, Rules: rules}); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []struct {
		user, request string
		hint          string // "": none
	}{
		{"ops", "DELETE /v1/topics/t2x", "t2"},
		{"manager", "DELETE /v1/topics/t2x", ""},
		{"letters", "DELETE /v1/topics/t2x", "t2"},
		{"reader", "DELETE /v1/topics/t2x", "t2"},
		{"consumer", "GET /v1/topics/t2x/messages", "t2"}, // of which it may consume a channel
		{"ops", "GET /v1/topics/t2/channels/c2x/messages", "c2"},
		{"consumer", "GET /v1/topics/t2/channels/c2x/messages", ""},
		{"letters", "POST /v1/topics/t2/channels/c2x/pause", "c2"},
	} {
		method, target, _ := strings.Cut(x.request, " ")
		w := askAs(s.Handler(), tokens[x.user], method, target, "")
		var got api.ErrorAnswer
		want := ""
		if x.hint != "" {
			want = fmt.Sprintf("did you mean %q?", x.hint)
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusNotFound || got.Error.Hint != want {
			t.Errorf("%s by %s: %d %s, want the hint %q", x.request, x.user, w.Code, w.Body, want)
		}
	}
}
