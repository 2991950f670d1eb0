package header

import (
	"fmt"
	"testing"

	"github.com/brokerd/brokerd/internal/jsonbytes"
)

// Different bytes are different ids and keys, whether they are UTF-8 or not.
func TestIDsAndKeysAreBytes(t *testing.T) {
	for _, name := range []string{keyDedup, keyKey} {
		seen := map[string]int{}
		for n := range 1 << 16 {
			want := []byte{byte(n >> 8), byte(n)}
			if n < 256 {
				want = want[1:]
			}
			raw := append(jsonbytes.AppendText(fmt.Appendf(nil, `{"%s":`, name), want), '}')
			r, err := Parse(raw)
			if err != nil {
				t.Fatalf("%q: %v", raw, err)
			}
			got := string(r.Dedup) + string(r.Key)
			if got != string(want) {
				t.Fatalf("%q is read as %q", raw, got)
			}
			if other, there := seen[got]; there {
				t.Fatalf("%#x and %#x are one id", other, n)
			}
			seen[got] = n
		}
	}
}

func TestHalvesOfSurrogatePairsAreDifferentIDs(t *testing.T) {
	a, errA := Parse([]byte(`{"##dedup_id":"\ud800"}`))
	b, errB := Parse([]byte(`{"##dedup_id":"\udc00"}`))
	if errA != nil || errB != nil || string(a.Dedup) == string(b.Dedup) {
		t.Errorf("%q, %v and %q, %v", a.Dedup, errA, b.Dedup, errB)
	}
}

// A filter that names bytes which it cannot represent is refused, and one for U+FFFD does not choose others.
func TestFiltersCompareBytes(t *testing.T) {
	if _, err := ParseFilter([]byte("{\"type\":1,\"filter_ext_key\":\"k\",\"filter_data\":\"\xc1\"}")); err == nil {
		t.Error("a filter that is not UTF-8 is accepted")
	}
	f, err := ParseFilter([]byte("{\"type\":1,\"filter_ext_key\":\"k\",\"filter_data\":\"\uFFFD\"}"))
	if err != nil {
		t.Fatal(err)
	}
	if f.Match([]byte("{\"k\":\"\xc1\"}")) || !f.Match([]byte("{\"k\":\"\uFFFD\"}")) {
		t.Error("a byte is taken for U+FFFD")
	}
}
