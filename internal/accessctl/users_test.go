package accessctl

import (
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

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
