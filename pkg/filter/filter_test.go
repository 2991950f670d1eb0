package filter

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// order is the message that the tables look at.
var order = Message{
	Header: []byte(`{"type":"order","amount":12.5,"n":7,"vip":true,"tags":["a","b"],"to":{"country":"de"},"big":9007199254740993,"list":[-9007199254740993,{"big":9223372036854775807},-0],"whole":1.2e1,"huge":1e30,"##client_dispatch_tag":"red"}`),
	Key:    []byte("customer-7"), Tag: "red", Partition: 3, Timestamp: time.Date(2026, 11, 25, 3, 0, 0, 0, time.UTC), Attempts: 2, Size: 100,
}

func TestExpressionsSelectMessages(t *testing.T) {
	for _, test := range []struct {
		text string
		want bool
	}{
		{`header.type == "order" && key != ""`, true},
		{`header.type == "order" and not (key == "")`, true},
		{`header["type"] in ["order", "invoice"]`, true},
		{`header.type != "order"`, false},
		{`header.absent == "order"`, false},
		{`header.absent == nil`, true},
		{`"type" in header && "absent" not in header`, true},
		{`header.n == 7 && header.amount > 12 && header.amount + 1 < 14`, true},
		{`header.vip`, true},
		{`"a" in header.tags`, true},
		{`header.to.country == "de"`, true},
		{`header.from?.country == "de"`, false},
		{`header.type startsWith "or" && header.type endsWith "er" && header.type contains "rde"`, true},
		{`header.type matches "^(order|invoice)$"`, true},
		{`header["##client_dispatch_tag"] == tag && tag == "red"`, true},
		{`lower(key) == "customer-7" && len(key) == 10`, true},
		{`partition == 3 && attempts == 2 && size <= 100`, true},
		{`partition % 2 == 0`, false},
		{`timestamp > date("2026-11-25T02:59:59Z")`, true},
		{`timestamp < date("2026-11-25T02:59:59Z")`, false},
		{`int(header.n) * 2 > size ? true : header.vip`, true},
		{`header.n % 4 == 3 && header.n / 2 == 3.5`, true},
		{`header.big == 9007199254740993`, true},
		{`header.big == 9007199254740992`, false},
		{`header.big > 9007199254740992`, true},
		{`header.list[1].big == 9223372036854775807`, true},
		{`header.list[0] == -9007199254740993 && header.list[0] % 2 == -1`, true},
		{`header.whole == 12 && header.whole % 5 == 2 && header.list[2] == 0`, true},
		{`header.whole in [11, 12] && header.n in [7.0]`, true},
		{`header.huge > 9223372036854775807 && header.amount == 12.5`, true},
		{`header.absent ?? true`, true},
		{`header.absent`, false},
		{`true`, true},
	} {
		f, err := Compile(test.text)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		for range 2 {
			if got, err := f.Match(&order); got != test.want || err != nil {
				t.Errorf("%s: %v, %v", test.text, got, err)
			}
		}
		if f.String() != test.text {
			t.Errorf("%s is kept as %s", test.text, f)
		}
	}
}

func TestFailedEvaluationChoosesNothing(t *testing.T) {
	for _, test := range []struct{ text, header string }{
		{`header.n > 5`, `{"n":"seven"}`},
		{`header.n > 5`, `{}`},
		{`!(header.n > 5)`, ``},
		{`header.to.country == "de"`, `{}`},
		{`header.vip`, `{"vip":1}`},
		{`header.type == "order"`, `{"type":`},
		{`date(header.at) > timestamp`, `{"at":"soon"}`},
	} {
		f, err := Compile(test.text)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		if got, err := f.Match(&Message{Header: []byte(test.header)}); got || err == nil {
			t.Errorf("%s of %s: %v, %v; want an error", test.text, test.header, got, err)
		}
	}
}

func TestInvalidExpressionsSayWhere(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{``, "empty"},
		{strings.Repeat("x", MaxText+1), "limit is 1024"},
		{"key == \"\xff\"", "UTF-8"},
		{`header.type == "order" && kex != ""`, "unknown name kex at column 27"},
		{`header.type == "order" &&`, "unexpected end of the expression"},
		{`header.type = "order"`, "column 13"},
		{`size > "100"`, "column 6"},
		{`size + 1`, "bool"},
		{`size`, "bool"},
		{`key == 'a`, "column"},
		{`body == "x"`, "unknown name body at column 1"},
		{`now() > timestamp`, "column 1"},
		{`all(header.tags, # == "a")`, "column"},
		{`any(header.tags, {# == "a"})`, "column"},
		{`len(1..1000000) > size`, "ranges are not allowed in a filter"},
		{`size in 1..100`, "ranges are not allowed in a filter"},
		{`let a = key; a == ""`, "variables and sequences are not allowed"},
		{`header.a + header.b == "x"`, "+ needs a number on one side at column 10"},
		{`key + key == "x"`, "+ needs a number on one side"},
		{`key matches header.pattern`, "matches needs a regular expression in quotes"},
		{`key matches "("`, "column"},
		{`key matches "` + strings.Repeat("x{0,1000}", 100) + `"`, "the regular expressions are too large"},
		{`key matches "((a{9}){9}){9}"`, "the regular expressions are too large"},
		{`key matches "` + strings.Repeat("a", 300) + `" || tag matches "` + strings.Repeat("b", 300) + `"`, "the regular expressions are too large"},
		{`$env.key == "K"`, "$env is not a variable of a filter at column 1"},
		{`$env["header"].type == "a"`, "$env is not a variable"},
		{`repeat(key, 1000) == ""`, "column"},
		{`timestamp.Unix() > 0`, "methods cannot be called"},
		{`key[1:] == "x"`, "slices are not allowed"},
		{`header.f()`, "methods cannot be called"},
		{strings.Repeat("!", maxNodes+1) + "true", "exceeds maximum allowed nodes"},
	} {
		f, err := Compile(test.text)
		if !errors.Is(err, errInvalid) || f != nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60s: %v, want %q in it", test.text, err, test.want)
		}
	}
}

// A header that is no object, or more, chooses nothing.
func TestHeaderIsOneObject(t *testing.T) {
	f, err := Compile(`true || header.a`)
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range []string{`{"a":1}{}`, `{"a":1} x`, `[1]`, `7`, `{"a":`, `{"a":01}`} {
		if got, err := f.Match(&Message{Header: []byte(raw)}); got || err == nil {
			t.Errorf("%s: chosen %v, %v", raw, got, err)
		}
	}
	if got, err := f.Match(&Message{Header: []byte(" {\"a\":1}\n ")}); !got || err != nil {
		t.Errorf("with spaces: %v, %v", got, err)
	}
}

func TestSelectionEvaluatesEachTimeAndCounts(t *testing.T) {
	var s Selection
	tag := func([]byte) string { return "red" }
	choose := func(m Message) bool { return s.Chooses(&m, tag) }
	if !s.All() || !choose(Message{}) || s.Broken() != nil {
		t.Error("the zero value does not choose all")
	}
	s.Set(`tag == "red" && size > 1`)
	if s.All() || !choose(Message{Size: 2}) || choose(Message{Size: 1, Attempts: 1}) || choose(Message{Size: 1, Attempts: 2}) {
		t.Error("want what the filter chooses, at each delivery")
	}
	s.Set(`attempts < 3 && header.n < 1`)
	if choose(Message{Attempts: 3, Header: []byte(`{"n":0}`)}) || !choose(Message{Attempts: 2, Header: []byte(`{"n":0}`)}) || choose(Message{Attempts: 1}) {
		t.Error("a filter that looks at attempts is not asked each time")
	}
	if got := s.Counts(); got != (Counts{Left: 4, Failed: 1}) {
		t.Errorf("%+v", got)
	}
	s.Set("nonsense(")
	if s.Broken() == nil || s.All() {
		t.Error("what does not compile does not break it")
	}
	s.Set("")
	if !s.All() || s.Broken() != nil || s.Counts() != (Counts{Left: 4, Failed: 1}) {
		t.Error("without a filter it does not choose all")
	}
}

// FuzzCompile checks that whatever compiles can be asked about any header, and answers the
// same twice.
func FuzzCompile(f *testing.F) {
	f.Add(`header.type == "order" && key != ""`, []byte(`{"type":"order"}`))
	f.Add(`header.a[0].b?.c in [1, "x", nil] || size * 2 ** 3 > partition`, []byte(`{"a":[{"b":null}]}`))
	f.Add(`key matches "a{1,10}" ? attempts > 1 : string(header) contains "x"`, []byte(`{}`))
	f.Fuzz(func(t *testing.T, text string, header []byte) {
		e, err := Compile(text)
		if err != nil {
			if !errors.Is(err, errInvalid) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		m := order
		m.Header = header
		once, err1 := e.Match(&m)
		again, err2 := e.Match(&m)
		if once != again || (err1 == nil) != (err2 == nil) || once && err1 != nil {
			t.Errorf("%q of %q: %v, %v and %v, %v", text, header, once, err1, again, err2)
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	f, err := Compile(`header.type == "order" && key != ""`)
	if err != nil {
		b.Fatal(err)
	}
	m := order
	m.Header = []byte(`{"type":"order","region":"eu-west"}`)
	b.ReportAllocs()
	for b.Loop() {
		if ok, err := f.Match(&m); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

func BenchmarkMatchWithoutAHeader(b *testing.B) {
	f, err := Compile(`size > 10 && key != ""`)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if ok, err := f.Match(&order); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}
