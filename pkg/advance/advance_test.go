package advance

import (
	"encoding/hex"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/pkg/seq"
)

func TestChangesAreConcatenated(t *testing.T) {
	changes := []Change{
		{"ch", 300, 5, 6, 0, 0}, {"", 1 << 60, 0, seq.MaxOffset, 9, 0}, {"c", 1, 5, 5, 0, seq.MaxAttempts},
	}
	var data []byte
	for _, c := range changes {
		data = c.Append(data)
	}
	const want = "01026368ac020506000001008080808080808080" + "1000ffffffffffffff" + "010900" + "010163010505" + "00a01f"
	if got := hex.EncodeToString(data); got != want {
		t.Errorf("encoded as %s\nwant       %s", got, want)
	}
	got, err := Decode(data)
	if d := cmp.Diff(changes, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	for n := range data {
		if got, err := Decode(data[:n]); err == nil && len(got) >= len(changes) || err != nil && !errors.Is(err, errInvalid) {
			t.Errorf("the first %d bytes: %v, %v", n, got, err)
		}
	}
}

func TestInvalidChangesAreRefused(t *testing.T) {
	for name, raw := range map[string]string{
		"nothing":              "",
		"an unknown version":   "02",
		"a short name":         "010263",
		"a long name":          "018002" + hex.EncodeToString(make([]byte, 256)) + "0105050000",
		"a short number":       "01016301050500",
		"an oversized number":  "010163ffffffffffffffffffff7f05050000",
		"below the floor":      "0101630105040000",
		"too many attempts":    "01016301050500a11f",
		"garbage behind a one": "01016301050500" + "00" + "07",
	} {
		data, err := hex.DecodeString(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Decode(data); !errors.Is(err, errInvalid) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(Change{"c", 1, 2, 3, 0, 0}.Append(nil))
	f.Add(Change{"c", 1, 2, 3, 0, 7}.Append(Change{"", 1 << 60, 0, seq.MaxOffset, 0, 0}.Append(nil)))
	f.Add([]byte{version, 200, 'x'})
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := Decode(data)
		if err != nil {
			if !errors.Is(err, errInvalid) {
				t.Fatal(err)
			}
			return
		}
		var again []byte
		for _, c := range all {
			again = c.Append(again)
		}
		back, err := Decode(again)
		if d := cmp.Diff(all, back); d != "" || err != nil {
			t.Fatalf("%v (-was +is):\n%s", err, d)
		}
	})
}
