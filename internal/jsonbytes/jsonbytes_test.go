package jsonbytes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTextPreservesBytes(t *testing.T) {
	for _, test := range []struct {
		raw, want string
		ok        bool
	}{
		{`"plain"`, "plain", true},
		{`""`, "", true},
		{`"\"\\\/\b\f\n\r\t"`, "\"\\/\b\f\n\r\t", true},
		{`"\u0041\u00e9\ud83d\ude00"`, "Aé😀", true},
		{"\"\xc1\"", "\xc1", true},
		{"\"a\xff\\u00e9\xfe\"", "a\xffé\xfe", true},
		{`"\ud800"`, "\xed\xa0\x80", true},
		{`"\udfff"`, "\xed\xbf\xbf", true},
		{`"\ud800\ud800\udc00"`, "\xed\xa0\x80\U00010000", true},
		{`"\ud800x"`, "\xed\xa0\x80x", true},
		{"\"\uFFFD\"", "\uFFFD", true},
		{`7`, "", false},
		{`null`, "", false},
		{`"`, "", false},
		{`"\u00"`, "", false},
		{``, "", false},
	} {
		got, ok := Text([]byte(test.raw))
		if string(got) != test.want || ok != test.ok {
			t.Errorf("%q: %q, %v, want %q, %v", test.raw, got, ok, test.want, test.ok)
		}
	}
}

// Each sequence of up to two bytes survives a string.
func TestAllBytesRoundTrip(t *testing.T) {
	for n := range 1 << 16 {
		want := []byte{byte(n >> 8), byte(n)}
		for _, want := range [][]byte{want, want[1:]} {
			raw := AppendText(nil, want)
			if got, ok := Text(raw); !ok || !bytes.Equal(got, want) {
				t.Fatalf("%x as %q: %x, %v", want, raw, got, ok)
			}
		}
	}
}

func TestCheckRefusesWhatWouldBeReplaced(t *testing.T) {
	for _, raw := range []string{"\"\xc1\"", `{"\ud800":1}`, `["\udc00"]`, `"\ud800\u0041"`, `"\\\ud800"`, `"\ud83d\ude00\ude00"`} {
		var v any
		if err := Unmarshal([]byte(raw), &v); !errors.Is(err, ErrNotText) {
			t.Errorf("%q: %v", raw, err)
		}
	}
	for _, raw := range []string{`"\\ud800"`, `"\ud83d\ude00"`, "\"\uFFFD\"", `"\ufffd"`, `{"é":[1,"\n"]}`} {
		var v any
		if err := Unmarshal([]byte(raw), &v); err != nil {
			t.Errorf("%q: %v", raw, err)
		}
	}
}

func TestMembersOfForeignObjects(t *testing.T) {
	raw := " {\"\xc1\" : \"a,}\" ,\n\"\xc2\":[1,{\"x\":\"]\"}], \"n\":-1.5e3,\"t\":true ,\"\\\"q\":{}}"
	members, ok := Members([]byte(raw))
	if !ok {
		t.Fatal("not an object")
	}
	var got []string
	for name, value := range members {
		got = append(got, fmt.Sprintf("%s=%s", name, value))
	}
	want := []string{"\xc1=\"a,}\"", "\xc2=[1,{\"x\":\"]\"}]", "n=-1.5e3", "t=true", `"q={}`}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for range members {
		break // a caller may stop
	}
	for _, bad := range []string{``, `[]`, `null`, `{`, `{}x`, `{"a":}`, `"{}"`} {
		if _, ok := Members([]byte(bad)); ok {
			t.Errorf("%s is an object", bad)
		}
	}
}

// FuzzValue checks that Value reads what encoding/json reads, unless that replaces bytes; then the bytes are
// preserved.
func FuzzValue(f *testing.F) {
	for _, raw := range []string{`{"a":[1,-2.5e7,"\u00e9",null,true,{}],"b":""}`, " [ ] ", "\"\xff\"", `"\ud800"`, `{"a":1,"a":2}`, `1 2`} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := Value(raw)
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		var want any
		if valid := json.Valid(raw); valid != (err == nil) {
			t.Fatalf("%q: %v, valid: %v", raw, err, valid)
		}
		if err != nil {
			return
		}
		if err := d.Decode(&want); err != nil {
			t.Fatal(err)
		}
		if Check(raw) == nil {
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%q: %#v, want %#v", raw, got, want)
			}
		} else if text, ok := got.(string); ok && strings.ToValidUTF8(text, "") == text && utf8.Valid(raw) && !strings.Contains(string(raw), `\u`) {
			t.Fatalf("%q: refused by Check, and valid text", raw)
		}
	})
}

func TestVisibleShowsBytes(t *testing.T) {
	for raw, want := range map[string]string{
		"\"a\xc1\"":           `a\xc1`,
		`"\udcff"`:            `\udcff`,
		"\"\\\"\xff\\u00e9\"": "\"" + `\xff` + "é",
		`"plain\n"`:           "plain\n",
		"\"\\ud800\xfe\"":     `\ud800\xfe`,
	} {
		var got string
		if err := Unmarshal(Visible([]byte(raw)), &got); err != nil || got != want {
			t.Errorf("%q: %q, want %q, %v", raw, got, want, err)
		}
	}
	for _, raw := range []string{"\\", "\xff\\", "\\u", "\xff\\u12", "\\\xff"} {
		Visible([]byte(raw)) // must not fail
	}
}
