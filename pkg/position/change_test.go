package position

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sampleChange() Change {
	return Change{Position: samplePosition(), Unmarked: []Range{{1009, 1010}, {1020, 1300}}}
}

const sampleChangeHex = "38" + samplePositionHex + "02" + "0901" + "0a9802"

func TestChangeIsGolden(t *testing.T) {
	data, err := sampleChange().AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(data); got != sampleChangeHex {
		t.Errorf("encoded\n%s, want\n%s", got, sampleChangeHex)
	}
	var c Change
	if err := c.UnmarshalBinary(data); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sampleChange(), c); diff != "" {
		t.Error(diff)
	}
	for n := range data {
		if err := c.UnmarshalBinary(data[:n]); !errors.Is(err, errInvalid) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
}

func TestBadChangesAreRefused(t *testing.T) {
	for name, c := range map[string]Change{
		"unmarked and deferred":  {Position{Deferred: NewDeferralSet(Deferral{5, 0, 0, 1})}, []Range{{4, 6}}},
		"unmarked and attempted": {Position{Attempted: []Attempt{{5, 1}}}, []Range{{5, 6}}},
		"unmarked and finished":  {Position{Finished: []Range{{5, 9}}}, []Range{{2, 6}}},
		"touching ranges":        {Position{}, []Range{{2, 6}, {6, 7}}},
	} {
		data, err := c.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := new(Change).UnmarshalBinary(data); !errors.Is(err, errInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzChange(f *testing.F) {
	data, _ := sampleChange().AppendBinary(nil)
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		var c Change
		if c.UnmarshalBinary(data) != nil {
			return
		}
		if again, _ := c.AppendBinary(nil); !bytes.Equal(again, data) {
			t.Errorf("%x encodes as %x", data, again)
		}
		p := samplePosition()
		p.Apply(c)
		encoded, _ := p.AppendBinary(nil)
		if err := new(Position).UnmarshalBinary(encoded); err != nil {
			t.Errorf("after %x: %v", data, err)
		}
	})
}
