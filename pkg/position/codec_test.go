package position

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/pkg/seq"
)

func samplePosition() Position {
	return Position{
		Floor:     1000,
		Finished:  []Range{{1001, 1005}, {1300, 100_000_000}},
		Deferred:  NewDeferralSet(Deferral{1006, time.Unix(1700000000, 5).UnixNano(), 1000, 3}, Deferral{1008, math.MaxInt64, math.MaxInt64, 1}),
		Attempted: []Attempt{{1000, 1}, {1007, seq.MaxAttempts}},
	}
}

const samplePositionHex = "03" + "e807" +
	"02" + "0104" + "a702" + "ecb7d72f" +
	"01" + "06" + "02" + "05002a36fe9c9717" + "1a" + "01" + "00" + "cf0f" + "03" + "03" + "f4ffaf9db9c0b1e8d001" + "b9f0cfe2c6bfce972f" + "01" +
	"02" + "0001" + "06" + "a01f"

func TestPositionIsGolden(t *testing.T) {
	data, err := samplePosition().AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(data); got != samplePositionHex {
		t.Errorf("encoded\n%s, want\n%s", got, samplePositionHex)
	}
	var p Position
	if err := p.UnmarshalBinary(data); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(samplePosition(), p); diff != "" {
		t.Error(diff)
	}
	for n := range data {
		if err := p.UnmarshalBinary(data[:n]); !errors.Is(err, errInvalid) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
	if diff := cmp.Diff(samplePosition(), p); diff != "" {
		t.Errorf("a failure changed the position: %s", diff)
	}
}

func TestBadPositionsAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":                  "",
		"version 1":                "0100000000",
		"more after the end":       "030000000000",
		"long form of a number":    "03800000000000",
		"floor too large":          "03ffffffffffffffff0f000000",
		"endless number":           "03ffffffffffffffffffffff000000",
		"more ranges than bytes":   "0300ffffff7f0000",
		"range touches the floor":  "03000100010000",
		"ranges touch":             "0300020101000100000000",
		"empty range":              "03000101000000",
		"no attempts":              "0300000001" + "0000",
		"too many attempts":        "0300000001" + "00a11f",
		"deferred and attempted":   "0300" + "00" + "01" + "05" + "01" + "0000000000000000" + "04" + "01000001" + "01" + "0501",
		"empty page":               "0300" + "00" + "01" + "05" + "00" + "0000000000000000" + "03" + "010000" + "00",
		"page too large":           "0300" + "00" + "01" + "05" + "8104" + "0000000000000000" + "03" + "000000" + "00",
		"page with more behind":    "0300" + "00" + "01" + "05" + "01" + "0000000000000000" + "04" + "00000000" + "00",
		"page with less":           "0300" + "00" + "01" + "05" + "02" + "0000000000000000" + "03" + "000000" + "00",
		"page beyond the end":      "0300" + "00" + "01" + "05" + "01" + "0000000000000000" + "09" + "000000" + "00",
		"page with a gap first":    "0300" + "00" + "01" + "05" + "01" + "0000000000000000" + "03" + "020000" + "00",
		"page with another base":   "0300" + "00" + "01" + "05" + "01" + "0000000000000000" + "03" + "000200" + "00",
		"deferred for less than 0": "0300" + "00" + "01" + "05" + "01" + "0000000000000000" + "03" + "000002" + "00",
		"offset beyond all":        "0300" + "00" + "01" + "05" + "02" + "0000000000000000" + "0f" + "000000feffffffffffffffff010000" + "00",
		"no attempts of deferred":  "0300" + "00" + "01" + "05" + "01" + "0000000000000000" + "04" + "01000000" + "00",
		"deferred and finished":    "0300" + "010501" + "01" + "05" + "01" + "0000000000000000" + "04" + "01000001" + "00",
		"attempted and finished":   "0300" + "010501" + "00" + "01" + "0501",
		"range beyond all offsets": "0300" + "0101" + "ffffffffffffffff0f" + "0000",
	} {
		data, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(name, err)
		}
		var p Position
		if err := p.UnmarshalBinary(data); !errors.Is(err, errInvalid) {
			t.Errorf("%s: %v, %+v", name, err, p)
		}
	}
}

func TestPositionBelow(t *testing.T) {
	p := samplePosition()
	if diff := cmp.Diff(p, p.Below(seq.MaxOffset)); diff != "" {
		t.Error(diff)
	}
	want := Position{Floor: 1000, Finished: []Range{{1001, 1003}}, Attempted: []Attempt{{1000, 1}}}
	if diff := cmp.Diff(want, p.Below(1003)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(Position{Floor: 7}, p.Below(7)); diff != "" {
		t.Error(diff)
	}
}

func FuzzPositionDecode(f *testing.F) {
	data, _ := samplePosition().AppendBinary(nil)
	f.Add(data)
	f.Add([]byte{3, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		var p Position
		if err := p.UnmarshalBinary(data); err != nil {
			if !errors.Is(err, errInvalid) {
				t.Fatal(err)
			}
			return
		}
		again, err := p.AppendBinary(nil)
		if err != nil || !bytes.Equal(again, data) {
			t.Fatalf("%x is encoded as %x, %v", data, again, err)
		}
	})
}

func TestMovedCountsMessages(t *testing.T) {
	p := Position{Floor: 10, Finished: []Range{{12, 14}, {18, 20}}}
	for target, want := range map[seq.Offset][2]int64{
		10: {4, 0}, 5: {9, 0}, 11: {4, 1}, 13: {3, 2}, 14: {2, 2}, 19: {1, 6}, 30: {0, 16},
	} {
		if again, skipped := p.Moved(target); again != want[0] || skipped != want[1] {
			t.Errorf("to %d: %d again, %d skipped; want %v", target, again, skipped, want)
		}
	}
}
