package header

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for _, test := range []struct {
		name, raw string
		want      Reserved
		err       error
	}{
		{"nothing in it", `{}`, Reserved{Only: true, Options: true}, nil},
		{"the consumers' keys", `{"k":"v","n":1,"o":{"##trace_id":1}}`, Reserved{}, nil},
		{"a trace id", `{"##trace_id":"18446744073709551615"}`, Reserved{TraceID: 1<<64 - 1, Traced: true, Only: true, Options: true}, nil},
		{"a trace id of 0", `{"##trace_id":"0","k":null}`, Reserved{Traced: true}, nil},
		{"the last of two", `{"##trace_id":"1","##trace_id":"2"}`, Reserved{TraceID: 2, Traced: true, Only: true, Options: true}, nil},
		{"a tag", `{"##client_dispatch_tag":"a-Z_9"}`, Reserved{Tag: "a-Z_9", Only: true}, nil},
		{"a tag that no consumer can ask for", `{"##client_dispatch_tag":"a b"}`, Reserved{Only: true}, nil},
		{"a tag that is no text", `{"##client_dispatch_tag":["a"]}`, Reserved{Only: true}, nil},
		{"an unknown reserved key", `{"##dedup-id":"a"}`, Reserved{}, errOption},
		{"a key", `{"##key":"order-7"}`, Reserved{Key: []byte("order-7"), Only: true, Options: true}, nil},
		{"a dedup id and a trace id", `{"##dedup_id":"p/1","##trace_id":"7"}`, Reserved{Dedup: []byte("p/1"), TraceID: 7, Traced: true, Only: true, Options: true}, nil},
		{"a time to live", `{"##ttl":"1500"}`, Reserved{TTL: 1500 * time.Millisecond, Only: true, Options: true}, nil},
		{"one that is a number", `{"##ttl":1500}`, Reserved{TTL: 1500 * time.Millisecond, Only: true, Options: true}, nil},
		{"a key and a tag", `{"##key":"a","##client_dispatch_tag":"b"}`, Reserved{Key: []byte("a"), Tag: "b", Only: true}, nil},
		{"a key and the consumers' keys", `{"##key":"a","k":1}`, Reserved{Key: []byte("a")}, nil},
		{"an empty key", `{"##key":""}`, Reserved{}, errOption},
		{"a key that is no text", `{"##key":7}`, Reserved{}, errOption},
		{"a long key", `{"##key":"` + strings.Repeat("k", maxKey+1) + `"}`, Reserved{}, errOption},
		{"a long dedup id", `{"##dedup_id":"` + strings.Repeat("k", maxDedup+1) + `"}`, Reserved{}, errOption},
		{"a negative time to live", `{"##ttl":-1}`, Reserved{}, errOption},
		{"a time to live with a unit", `{"##ttl":"1s"}`, Reserved{}, errOption},
		{"spaces around", " {\n} ", Reserved{Only: true, Options: true}, nil},

		{"nothing", ``, Reserved{}, errNotObject},
		{"null", `null`, Reserved{}, errNotObject},
		{"a list", `[]`, Reserved{}, errNotObject},
		{"a text", `"{}"`, Reserved{}, errNotObject},
		{"cut off", `{"a":`, Reserved{}, errNotObject},
		{"something behind it", `{}{}`, Reserved{}, errNotObject},
		{"a trace id that is a number", `{"##trace_id":7}`, Reserved{}, ErrTraceID},
		{"a trace id that is null", `{"##trace_id":null}`, Reserved{}, ErrTraceID},
		{"an empty trace id", `{"##trace_id":""}`, Reserved{}, ErrTraceID},
		{"a negative trace id", `{"##trace_id":"-1"}`, Reserved{}, ErrTraceID},
		{"a trace id of 65 bits", `{"##trace_id":"18446744073709551616"}`, Reserved{}, ErrTraceID},
		{"what only the broker writes", `{"dead_letter":{"topic":"t"}}`, Reserved{}, ErrWritten},
		{"as it is decoded, too", `{"Dead_LETTER":"x"}`, Reserved{}, ErrWritten},
		{"escaped", `{"dead\u005fletter":"x"}`, Reserved{}, ErrWritten},
		{"before what is wrong besides", `{"##ttl":"x","##trace_id":1,"dead_letter":{}}`, Reserved{}, ErrWritten},
		{"below another key", `{"k":{"dead_letter":1},"a_dead_letter":2}`, Reserved{}, nil},
		{"too long", `{"k":"` + strings.Repeat("x", Max) + `"}`, Reserved{}, errTooLong},
	} {
		got, err := Parse([]byte(test.raw))
		if !errors.Is(err, test.err) || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, %v", test.name, got, err)
		}
	}
	longest := `{"k":"` + strings.Repeat("x", Max-8) + `"}`
	if _, err := Parse([]byte(longest)); err != nil {
		t.Errorf("%d bytes: %v", len(longest), err)
	}
}

func TestValidTag(t *testing.T) {
	for tag, want := range map[string]bool{
		"": false, "a": true, "A-Z_09": true, "a.b": false, "ä": false, "a b": false,
		strings.Repeat("x", MaxTag): true, strings.Repeat("x", MaxTag+1): false,
	} {
		if ValidTag(tag) != want {
			t.Errorf("%q: %v", tag, !want)
		}
	}
}

// FuzzParse checks that an accepted header contains only values that a consumer can request.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"##trace_id":"7","##client_dispatch_tag":"a","k":[{}]}`))
	f.Add([]byte(`{"a":{"a":{"a":{}}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := Parse(raw)
		if err != nil && !reflect.DeepEqual(r, Reserved{}) {
			t.Errorf("%q is refused and read as %+v", raw, r)
		}
		if r.Tag != "" && !ValidTag(r.Tag) || r.TraceID != 0 && !r.Traced {
			t.Errorf("%q: %+v", raw, r)
		}
	})
}
