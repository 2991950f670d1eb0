package access

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// FuzzRule checks what a valid rule grants against a regular expression for its patterns.
func FuzzRule(f *testing.F) {
	f.Add(`{"right":"subscribe","topic":"orders*","channel":"*.a*b"}`, "orders.eu", "x.ab")
	f.Add(`{"right":"publish","topic":"**a*"}`, "ba", "")
	f.Add(`{"right":"manage","topic":"t#ephemeral"}`, "t#ephemeral", "c")
	f.Add(`{"right":"read"}`, "", "")
	f.Add(`{"right":"admin"}`, "t", "c")
	f.Fuzz(func(t *testing.T, text, topic, channel string) {
		var r Rule
		if json.Unmarshal([]byte(text), &r) != nil || r.validate() != nil {
			return
		}
		matches := func(pattern, name string) bool {
			return regexp.MustCompile(`\A(?s:` + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`) + `)\z`).MatchString(name)
		}
		for _, right := range []Right{Publish, Subscribe, Manage, Read, Admin, ""} {
			d := Demand{Right: right, Topic: topic, Channel: channel}
			want := r.Right == right
			switch r.Right {
			case Admin:
				want = true
			case Publish, Manage:
				want = want && topic != "" && matches(r.Topic, topic)
			case Subscribe:
				want = want && topic != "" && channel != "" && matches(r.Topic, topic) && matches(r.Channel, channel)
			case Read:
			}
			if got := r.Grants(d); got != want {
				t.Errorf("%s grants %+v: %v, want %v", r, d, got, want)
			}
		}
	})
}
