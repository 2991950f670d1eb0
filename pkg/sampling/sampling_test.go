package sampling

import (
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/seq"
)

func TestRulesAreRead(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", ""},
		{"off", ""},
		{"on", "on"},
		{"1/1", "on"},
		{" 1/100 ", "1/100"},
		{"id:00000000000000ff id:00000000000000ff", "id:00000000000000ff"},
		{"channel:a 1/7 channel:b", "1/7 channel:a channel:b"},
		{"on id:0000000000000001", "on id:0000000000000001"},
	} {
		r, err := ParseRule(tt.text)
		if err != nil || r.String() != tt.want || r.On() != (tt.want != "") {
			t.Errorf("%q: %q, on %v: %v", tt.text, r.String(), r.On(), err)
		}
		again, err := ParseRule(r.String())
		if err != nil || again.String() != tt.want {
			t.Errorf("%q reads back as %q: %v", tt.want, again.String(), err)
		}
	}
}

func TestInvalidRulesAreRefused(t *testing.T) {
	for _, text := range []string{
		"yes", "1/0", "1/-1", "1/x", "2/3", "1/99999999999", "on 1/2", "off on", "id:", "id:xyz", "channel:", "channel:a",
		strings.Repeat("on ", maxRule), "on" + strings.Repeat(" channel:x", 1) + many(" channel:c", maxNames),
	} {
		if r, err := ParseRule(text); err == nil {
			t.Errorf("%.40q is read as %q", text, r.String())
		}
	}
}

func many(word string, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(word + string(rune('A'+i)))
	}
	return b.String()
}

func TestRuleChoosesItsShare(t *testing.T) {
	r, err := ParseRule("1/10 id:0000000000000005 channel:c")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for id := range seq.WireID(10_000) {
		if r.Has(id) {
			n++
		}
	}
	if n < 900 || n > 1100 {
		t.Errorf("%d of 10000", n)
	}
	if !r.Has(5) || r.All() || !r.HasChannel("c") || r.HasChannel("d") {
		t.Error("the named message, or the channel")
	}
	all, _ := ParseRule("on")
	if !all.All() || !all.Has(7) || !all.HasChannel("x") {
		t.Error("on is not all")
	}
	if (Rule{}).Has(0) {
		t.Error("nothing is something")
	}
}

func FuzzParseRule(f *testing.F) {
	f.Add("1/10 id:0000000000000005 channel:c")
	f.Add("off")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRule(text)
		if err != nil {
			return
		}
		again, err := ParseRule(r.String())
		if err != nil || again.String() != r.String() {
			t.Errorf("%q becomes %q becomes %q: %v", text, r.String(), again.String(), err)
		}
	})
}
