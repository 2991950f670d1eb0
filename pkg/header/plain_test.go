package header

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

// sameAsAny returns how the fast parser reads a header differently from the full one.
func sameAsAny(t *testing.T, raw string) (quick bool) {
	t.Helper()
	var list [maxPlain]field
	fields, quick := plain([]byte(raw), list[:0])
	got, err := Parse([]byte(raw))
	want, wantErr := parseAny([]byte(raw))
	if !reflect.DeepEqual(got, want) || (err == nil) != (wantErr == nil) {
		t.Errorf("%q: %+v, %v, want %+v, %v", raw, got, err, want, wantErr)
	}
	if got, err := parsePlain([]byte(raw)); !reflect.DeepEqual(got, want) || (err == nil) != (wantErr == nil) {
		t.Errorf("%q: not as a dedup id alone: %+v, %v, want %+v, %v", raw, got, err, want, wantErr)
	}
	for _, is := range []error{errNotObject, ErrTraceID, errOption} {
		if !strings.Contains(raw, ",") && errors.Is(err, is) != errors.Is(wantErr, is) { // otherwise either may be reported
			t.Errorf("%q: %v, want %v", raw, err, wantErr)
		}
	}
	if quick && len(fields) == 0 {
		t.Errorf("%q: no fields", raw)
	}
	return quick
}

var headers = map[string]bool{ // read in the quick way
	`{"##key":"k"}`: true,
	" {\t\"##key\" : \"k\" ,\r\n\"##dedup_id\":\"d\", \"x\":\"\" } ": true,
	`{"##ttl":1000}`:                    true,
	`{"##ttl":"1000","##trace_id":"7"}`: true,
	`{"##ttl":0}`:                       true,
	`{"##ttl":01}`:                      false,
	`{"##ttl":1.5}`:                     false,
	`{"##ttl":1e3}`:                     false,
	`{"##ttl":-1}`:                      false,
	`{"##ttl":99999999999999999999}`:    true,
	`{"##trace_id":"x"}`:                true,
	`{"##trace_id":7}`:                  true,
	`{"##client_dispatch_tag":"t"}`:     true,
	`{"##unknown":"t"}`:                 true,
	`{"##key":""}`:                      true,
	`{"##key":7}`:                       true,
	`{"##key":null}`:                    false,
	`{"##key":"a","##key":"b"}`:         false,
	`{"##key":"\u0061"}`:                false,
	`{"\u0023#key":"a"}`:                false,
	`{"##key":"ä"}`:                     false,
	"{\"##key\":\"\xff\"}":              false,
	"{\"##key\":\"\x7f\"}":              false,
	"{\"##key\":\"a\tb\"}":              false,
	`{"x":{"##key":"a"}}`:               false,
	`{"x":[1]}`:                         false,
	`{"x":true}`:                        false,
	`{}`:                                false,
	``:                                  false,
	`null`:                              false,
	`"##key"`:                           false,
	`{"##key":"a"`:                      false,
	`{"##key":"a"}}`:                    false,
	`{"##key":"a",}`:                    false,
	`{"##key":"a"}x`:                    false,
	`{"##key" "a"}`:                     false,
	`{"a":"","b":"","c":"","d":"","e":"","f":"","g":"","##key":"k"}`:        true,
	`{"a":"","b":"","c":"","d":"","e":"","f":"","g":"","h":"","##key":"k"}`: false,
	`{"##key":"` + strings.Repeat("k", maxKey) + `"}`:                       true,
	`{"##key":"` + strings.Repeat("k", maxKey+1) + `"}`:                     true,
}

func TestPlainHeadersAreReadLikeOthers(t *testing.T) {
	for raw, want := range headers {
		if got := sameAsAny(t, raw); got != want {
			t.Errorf("%q: read in the quick way: %v", raw, got)
		}
	}
}

// A text is looked at eight bytes at a time: each byte counts, wherever it is.
func TestEachByteOfATextIsLookedAt(t *testing.T) {
	for at := range 20 {
		for c := range 256 {
			text := []byte("abcdefghijklmnopqrst")
			text[at] = byte(c)
			want := c >= ' ' && c <= '~' && c != '"' && c != '\\'
			if got := sameAsAny(t, `{"##key":"`+string(text)+`"}`); got != want {
				t.Errorf("byte %#x at %d: read in the quick way: %v", c, at, got)
			}
		}
	}
}

// A header with a dedup id alone is read like any other, and one that only begins and ends like it is not
// taken for it.
func TestLoneDedupIDIsReadLikeOthers(t *testing.T) {
	for raw, want := range map[string]bool{
		`{"##dedup_id":"a"}`:                                       true,
		`{"##dedup_id":"1a2b3c4d5e6f7g-123456"}`:                   true,
		`{"##dedup_id":"` + strings.Repeat("i", maxDedup) + `"}`:   true,
		`{"##dedup_id":"` + strings.Repeat("i", maxDedup+1) + `"}`: false,
		`{"##dedup_id":""}`:                                        false,
		`{"##dedup_id":"}`:                                         false,
		`{"##dedup_id":"a","##key":"k"}`:                           false,
		`{"##dedup_id":"a","##dedup_id":"b"}`:                      false,
		`{"##dedup_id":"a","dead_letter":"b"}`:                     false,
		`{"##dedup_id":"a\u0062"}`:                                 false,
		`{"##dedup_id":"a\"}`:                                      false,
		`{"##dedup_id":"ä"}`:                                       false,
		"{\"##dedup_id\":\"a\x00b\"}":                              false,
		`{"##dedup_id":"a"} `:                                      false,
		` {"##dedup_id":"a"}`:                                      false,
		`{"##dedup_iD":"a"}`:                                       false,
		`{"##dedup_id":"a"]`:                                       false,
		`{"##dedup_id":7"}`:                                        false,
	} {
		sameAsAny(t, raw)
		if id, got := lone([]byte(raw)); got != want || got && string(id) != raw[len(loneStart):len(raw)-len(loneEnd)] {
			t.Errorf("%q: taken for a dedup id alone: %v, %q", raw, got, id)
		}
	}
	for at := range 20 {
		for c := range 256 {
			text := []byte("abcdefghijklmnopqrst")
			text[at] = byte(c)
			raw := loneStart + string(text) + loneEnd
			sameAsAny(t, raw)
			if _, got := lone([]byte(raw)); got != (c >= ' ' && c <= '~' && c != '"' && c != '\\') {
				t.Errorf("byte %#x at %d: taken for a dedup id alone: %v", c, at, got)
			}
		}
	}
}

func FuzzPlainHeaders(f *testing.F) {
	for raw := range headers {
		f.Add(raw)
	}
	f.Add(`{"##dedup_id":"1a2b3c-123456"}`)
	f.Add(`{"##dedup_id":"a","x":"b"}`)
	f.Fuzz(func(t *testing.T, raw string) { sameAsAny(t, raw) })
}

func BenchmarkParse(b *testing.B) {
	for name, raw := range map[string][]byte{
		"dedup": []byte(`{"##dedup_id":"1a2b3c4d5e6f7g-123456"}`),
		"both":  []byte(`{"##key":"k123","##dedup_id":"1a2b3c4d5e6f7g-123456"}`),
	} {
		for how, parse := range map[string]func([]byte) (Reserved, error){"Parse": Parse, "plain": parsePlain, "any": parseAny} {
			b.Run(name+"/"+how, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := parse(raw); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
