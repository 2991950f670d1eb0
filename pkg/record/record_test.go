package record

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/internal/golden"
)

const later = 1_700_000_000_123_456_789 * time.Nanosecond

// records are the shapes that a message can have, by name.
var records = []struct {
	name string
	m    Message
}{
	{"plain", Message{Body: []byte("hello")}},
	{"deferred", Message{Body: []byte("later"), Delay: later}},
	{"traced", Message{Body: []byte("x"), TraceID: 0x1122334455667788}},
	{"with header", Message{Body: []byte("x"), Header: []byte(`{"k":"v"}`)}},
	{"empty header", Message{Body: []byte("x"), Header: []byte{}}},
	{"keyed", Message{Body: []byte("x"), Key: []byte("order-7")}},
	{"longest key", Message{Body: []byte("x"), Key: bytes.Repeat([]byte("k"), MaxKey)}},
	{"with dedup id", Message{Body: []byte("x"), Dedup: []byte("p1/42")}},
	{"longest dedup id", Message{Body: []byte("x"), Dedup: bytes.Repeat([]byte("d"), MaxDedup)}},
	{"expiring", Message{Body: []byte("x"), TTL: time.Minute}},
	{"everything", Message{
		Body: []byte("body"), Delay: later, TraceID: 1, Header: []byte("{}"),
		Key: []byte("k"), Dedup: []byte("d"), TTL: 1, Address: &Address{Channel: 1},
	}},
	{"addressed", Message{Body: []byte("again"), Address: &Address{Channel: 7, Partition: 3, Offset: 42, Timestamp: int64(later), Attempts: 2}}},
	{"moved", Message{Body: []byte("again"), Delay: time.Hour, Address: &Address{Channel: 1 << 40, Partition: 1023, Offset: 1<<50 - 1, First: 1<<50 - 2, Timestamp: -1, Attempts: 4000, Moves: true}}},
	{"moved, chosen by an operator", Message{Body: []byte("again"), Address: &Address{Channel: 7, Partition: 3, Offset: 43, Timestamp: 1, Moves: true, Chosen: true}}},
}

func encode(m *Message) []byte {
	p := make([]byte, m.Size())
	m.Encode(p)
	return p
}

func TestRecordGolden(t *testing.T) {
	var got strings.Builder
	for _, r := range records {
		fmt.Fprintf(&got, "%s: %s\n", r.name, hex.EncodeToString(encode(&r.m)))
	}
	golden.Compare(t, "testdata/record.golden", got.String())
}

func TestRecordRoundTrip(t *testing.T) {
	for _, r := range records {
		got, err := Decode(encode(&r.m))
		if err != nil {
			t.Errorf("%s: %v", r.name, err)
		}
		if d := cmp.Diff(r.m, got); d != "" {
			t.Errorf("%s (-put +got):\n%s", r.name, d)
		}
	}
}

func TestRecordRefusesWhatItDoesNotKnow(t *testing.T) {
	for name, raw := range map[string]string{
		"nothing":               "",
		"an unknown flag":       "80aa",
		"a short delivery time": "0100",
		"a short trace id":      "0211",
		"a short header length": "0400",
		"a short header":        "040005aa",
		"no key length":         "08",
		"an empty key":          "0800aa",
		"a short key":           "0802aa",
		"an empty dedup id":     "1000aa",
		"a short dedup id":      "1002aa",
		"a long dedup id":       "1041" + strings.Repeat("aa", 66),
		"a short time to live":  "2001",
		"no time to live":       "200000000000000000aa",
		"a negative time":       "2000000000000000ffaa",
		"a short address":       "40" + strings.Repeat("00", addressBytes-1),
		"an address of none":    "40" + strings.Repeat("00", addressBytes) + "aa",
		"an unknown kind":       "4003" + strings.Repeat("01", addressBytes-1) + "aa",
		"a first behind it":     "4001" + "01" + strings.Repeat("00", 7+2) + "05" + strings.Repeat("00", 7) + "06" + strings.Repeat("00", 7+8+2) + "aa",
		"too many attempts":     "4001" + strings.Repeat("00", addressBytes-1-10) + "00000000000000ffff" + "aa",
	} {
		p, _ := hex.DecodeString(raw)
		if _, err := Decode(p); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: error %v, want ErrInvalid", name, err)
		}
	}
}

func FuzzRecordDecode(f *testing.F) {
	for _, r := range records {
		f.Add(encode(&r.m))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := Decode(raw)
		if err != nil {
			return
		}
		if m.TraceID == 0 && raw[0]&flagTraceID != 0 || m.Delay == 0 && raw[0]&flagDelay != 0 {
			return // fields that are present but empty: no publisher writes them
		}
		if again := encode(&m); !bytes.Equal(again, raw) {
			t.Errorf("decoded %x encodes as %x", raw, again)
		}
	})
}
