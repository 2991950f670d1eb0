package filter

import (
	"encoding/json"
	"math"
	"testing"
)

// FuzzHeader checks that a header is an object of JSON for expressions exactly if it is one, and that its numbers have
// the types of numbers in expressions.
func FuzzHeader(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":[1.0,2.5,{"c":1e400}],"d":null}`))
	f.Add([]byte(`{"large":9007199254740993,"larger":18446744073709551616}`))
	f.Add([]byte("{\"\xff\":\"\xfe\"}"))
	f.Add([]byte(`[1]`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		header, err := readHeader(raw)
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) != nil {
			if err == nil && len(raw) > 0 && json.Valid(raw) {
				t.Errorf("%q is taken for an object", raw)
			}
			return
		}
		if err == nil && len(header) > len(object) {
			t.Errorf("%q has %d members, want at most %d", raw, len(header), len(object))
		}
		checkNumbers(t, raw, header)
	})
}

func checkNumbers(t *testing.T, raw []byte, v any) {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		for _, of := range v {
			checkNumbers(t, raw, of)
		}
	case []any:
		for _, of := range v {
			checkNumbers(t, raw, of)
		}
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < exact {
			t.Errorf("%q: %v is a whole number and no int", raw, v)
		}
	case json.Number:
		t.Errorf("%q: %s is no number of an expression", raw, v)
	case nil, bool, string, int:
	default:
		t.Errorf("%q: %T", raw, v)
	}
}
