package accessctl

import (
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

// A dry run says what goes, and of whom.
func TestDryRunsSayWhatWouldGo(t *testing.T) {
	u := api.User{Name: "billing", Rules: []api.Rule{{Right: "read"}, {Right: "publish", Topic: "t"}}, Certificates: []string{"c"}, Tokens: 2}
	u.Revoked = []api.Token{{ID: "01", Description: "production"}, {ID: "02"}}
	const deletion = "user billing would be deleted, with 2 rules (read, publish t), 1 certificate names and 2 tokens (01 production, 02)"
	if got := deletionAnswer(&u).Said; !strings.HasSuffix(got, "nothing was changed: "+deletion) {
		t.Errorf("%q, want %q", got, deletion)
	}
	u.Revoked = u.Revoked[:1]
	const revocation = "token 01 production of user billing would be revoked; the user keeps 1 tokens"
	if got := revocationAnswer(&u).Said; !strings.HasSuffix(got, "nothing was changed: "+revocation) {
		t.Errorf("%q, want %q", got, revocation)
	}
}

func TestRulesRoundTrip(t *testing.T) {
	for _, tt := range []struct {
		text string
		want api.Rule
	}{
		{"admin", api.Rule{Right: "admin"}},
		{"publish orders*", api.Rule{Right: "publish", Topic: "orders*"}},
		{"subscribe orders/billing", api.Rule{Right: "subscribe", Topic: "orders", Channel: "billing"}},
		{"subscribe orders", api.Rule{Right: "subscribe", Topic: "orders", Channel: "*"}},
	} {
		got, err := parseRule(strings.Fields(tt.text))
		if err != nil || got != tt.want {
			t.Errorf("%q: %+v, %v", tt.text, got, err)
		}
		if again, err := parseRule(strings.Fields(ruleText(got))); err != nil || again != got {
			t.Errorf("%q is written %q", tt.text, ruleText(got))
		}
	}
	for _, text := range []string{"", "a b c"} {
		if _, err := parseRule(strings.Fields(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
