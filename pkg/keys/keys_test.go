package keys

import (
	"strings"
	"testing"

	"github.com/brokerd/brokerd/internal/jsonbytes"
)

func TestKeyOf(t *testing.T) {
	long := strings.Repeat("k", maxKey)
	tests := []struct{ rule, body, want string }{
		{"", `{"a":"b"}`, ""},
		{"prefix:|", "order-7|rest|more", "order-7"},
		{"prefix:|", "no separator", ""},
		{"prefix:|", "|nothing before", ""},
		{"prefix::", "a:b", "a"},
		{"prefix:|", long + "|x", long},
		{"prefix:|", long + "k|x", ""},
		{"prefix:|", strings.Repeat("x", maxBody) + "|", ""},
		{"json:/id", `{"id":"seven"}`, "seven"},
		{"json:/id", `{"id":7}`, "7"},
		{"json:/id", `{"id":12345678901234567890}`, "12345678901234567890"},
		{"json:/id", `{"id":true}`, "true"},
		{"json:/id", `{"id":null}`, ""},
		{"json:/id", `{"id":{}}`, ""},
		{"json:/id", `{"id":""}`, ""},
		{"json:/id", `{"other":{"id":"no"},"list":[1,{"id":2}],"id":"yes"}`, "yes"},
		{"json:/id", `{"other":1}`, ""},
		{"json:/id", `{"id":"seven"`, "seven"},
		{"json:/id", `{"x":[[[`, ""},
		{"json:/id", `["id"]`, ""},
		{"json:/id", "no JSON", ""},
		{"json:/id", "", ""},
		{"json:/user/id", `{"user":{"name":"x","id":"u1"}}`, "u1"},
		{"json:/user/id", `{"user":"x"}`, ""},
		{"json:/items/1", `{"items":["a","b"]}`, "b"},
		{"json:/items/2", `{"items":["a","b"]}`, ""},
		{"json:/items/01", `{"items":["a","b"]}`, ""},
		{"json:/items/-", `{"items":["a","b"]}`, ""},
		{"json:/a~1b", `{"a/b":"slash"}`, "slash"},
		{"json:/a~01", `{"a~1":"tilde"}`, "tilde"},
		{"json:/", `{"":"empty name"}`, "empty name"},
		{"json:/k", `{"k":"` + long + `"}`, long},
		{"json:/k", `{"k":"` + long + `k"}`, ""},
		{"json:/k", `{"x":"` + strings.Repeat("x", maxBody) + `","k":"behind"}`, ""},
	}
	for _, tt := range tests {
		rule, err := ParseRule(tt.rule)
		if err != nil {
			t.Errorf("%s: %v", tt.rule, err)
		}
		if got := string(rule.Of([]byte(tt.body))); got != tt.want {
			t.Errorf("%s of %.60q: %q, want %q", tt.rule, tt.body, got, tt.want)
		}
	}
}

func TestBadRulesAreRefused(t *testing.T) {
	for _, text := range []string{
		"json", "json:", "json:id", "prefix:", "prefix:ab", "prefix", "xml:/a", ":", "json:/a~", "json:/a~2",
		"json:" + strings.Repeat("/a", maxDepth+1), "json:/" + strings.Repeat("a", maxRule),
	} {
		if _, err := ParseRule(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func FuzzKeyOf(f *testing.F) {
	f.Add("json:/a/0", []byte(`{"a":["b"]}`))
	f.Add("prefix:|", []byte("a|b"))
	f.Fuzz(func(t *testing.T, text string, body []byte) {
		rule, err := ParseRule(text)
		if err != nil {
			return
		}
		if key := rule.Of(body); len(key) > maxKey || key != nil && len(key) == 0 {
			t.Errorf("key %q", key)
		}
	})
}

func BenchmarkJSONKey(b *testing.B) {
	rule, err := ParseRule("json:/order/id")
	if err != nil {
		b.Fatal(err)
	}
	body := []byte(`{"type":"order","order":{"id":"o-1234567","lines":[1,2,3]},"note":"` + strings.Repeat("x", 100) + `"}`)
	b.ReportAllocs()
	for b.Loop() {
		if rule.Of(body) == nil {
			b.Fatal("no key")
		}
	}
}

// Bodies are bytes: keys that are not UTF-8 stay what they are, and member names too.
func TestKeysAreBytes(t *testing.T) {
	rule, err := ParseRule("json:/k")
	if err != nil {
		t.Fatal(err)
	}
	for c := range 256 {
		body := append(jsonbytes.AppendText([]byte(`{"x":"\u00e9", "k" : `), []byte{'a', byte(c)}), '}')
		if key := rule.Of(body); string(key) != "a"+string([]byte{byte(c)}) {
			t.Fatalf("%q: key %q", body, key)
		}
	}
	if rule, err = ParseRule("json:/\uFFFD"); err != nil {
		t.Fatal(err)
	}
	if key := rule.Of([]byte("{\"\xc1\":\"other\",\"\uFFFD\":\"mine\"}")); string(key) != "mine" {
		t.Errorf("key %q", key)
	}
}
