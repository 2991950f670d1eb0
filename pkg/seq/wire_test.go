package seq

import (
	"math"
	"testing"
)

func TestIDsArePositions(t *testing.T) {
	for _, c := range []struct {
		partition int
		offset    Offset
		id        MessageID
	}{
		{0, 0, 0},
		{0, 1, 1},
		{1, 0, 0x0004000000000000},
		{5, 0xabcdef, 0x0014000000abcdef},
		{MaxPartitions - 1, MaxOffset, 0x0fffffffffffffff},
	} {
		id := NewMessageID(c.partition, c.offset)
		if id != c.id || id.Partition() != c.partition || id.Offset() != c.offset {
			t.Errorf("%x: partition %d, offset %d, want %x", id, id.Partition(), id.Offset(), c.id)
		}
		for _, first := range []WireID{0, 1, 0x8123456789abcdef, math.MaxUint64} {
			n := NumberingFrom(first)
			if n.First() != first || n.ID(0) != first {
				t.Errorf("begins at %s, want %s", n.First(), first)
			}
			if back, ok := n.Place(n.ID(id)); back != id || !ok {
				t.Errorf("%x has id %s from %s on, which is %x, %v", id, n.ID(id), first, back, ok)
			}
		}
	}
}

// The digits are what consumers keep: another numbering would show them the messages
// that they have as new ones.
func TestFirstIDFollowsFromClusterAndIncarnation(t *testing.T) {
	for _, c := range []struct {
		cluster     string
		incarnation uint64
		first       string
	}{
		{"", 0, "200170f5a1810b7a"},
		{"d41a5c", 7, "20019aa76e4d64b7"},
		{"d41a5c", 8, "400112426cd2ce9f"},
	} {
		if got := NumberingOf(c.cluster, c.incarnation).First().String(); got != c.first {
			t.Errorf("%q, %d: %s, want %s", c.cluster, c.incarnation, got, c.first)
		}
	}
}

// Clients of youzan's nsq read the partition from the id, and take an id for a signed
// number above 0.
func TestIDContainsPartition(t *testing.T) {
	for i := range uint64(1000) {
		n := NumberingOf("d41a5c", i)
		for _, partition := range []int{0, 1, 511, MaxPartitions - 1} {
			for _, o := range []Offset{0, 1, 1 << 49} {
				id := n.ID(NewMessageID(partition, o))
				if int(id>>50)&1023 != partition || int64(id) <= 0 { //nolint:gosec // the sign is looked at
					t.Fatalf("offset %d of partition %d has id %s in topic %d", o, partition, id, i)
				}
			}
		}
	}
}

func TestIDOfAnotherTopicIsNoPosition(t *testing.T) {
	n := NumberingFrom(1000)
	for _, id := range []WireID{0, 999, 1000 + 1<<60, math.MaxUint64} {
		if m, ok := n.Place(id); ok {
			t.Errorf("%s is %x", id, m)
		}
	}
}

func TestIDsAreSixteenDigits(t *testing.T) {
	for id, text := range map[WireID]string{
		0: "0000000000000000", 0x14000000abcdef: "0014000000abcdef", math.MaxUint64: "ffffffffffffffff",
	} {
		var hex [HexLen]byte
		id.PutHex(&hex)
		if id.String() != text || string(hex[:]) != text {
			t.Errorf("%s, %s, want %s", id, hex, text)
		}
		if got, err := ParseID([]byte(text)); got != id || err != nil {
			t.Errorf("%s was read as %s, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "0", "000000000000000g", "00000000000000001"} {
		if _, err := ParseID([]byte(bad)); err != errBadID { //nolint:errorlint // it is not wrapped
			t.Errorf("parse %q: %v", bad, err)
		}
	}
}

func FuzzParseID(f *testing.F) {
	f.Add([]byte("0014000000abcdef"), uint64(1)<<63)
	f.Fuzz(func(t *testing.T, text []byte, first uint64) {
		id, err := ParseID(text)
		if err != nil {
			return
		}
		n := NumberingFrom(WireID(first))
		m, ok := n.Place(id)
		if !ok {
			return
		}
		if again := n.ID(NewMessageID(m.Partition(), m.Offset())); again != id {
			t.Fatalf("%s is %s", id, again)
		}
	})
}
