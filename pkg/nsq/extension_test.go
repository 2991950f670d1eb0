package nsq

import (
	"bytes"
	"encoding/binary"
	"testing"
)

func TestTracedGolden(t *testing.T) {
	want := Traced{ID: 5, TraceID: 0x1122334455667788, Position: 0x7c, RawSize: 0x23}
	got := AppendTraced([]byte("x"), want)
	const golden = "x\x00\x00\x00\x22\x00\x00\x00\x00OK\x00\x00\x00\x00\x00\x00\x00\x05\x11\x22\x33\x44\x55\x66\x77\x88\x00\x00\x00\x00\x00\x00\x00\x7c\x00\x00\x00\x23"
	if string(got) != golden {
		t.Errorf("\n got %q\nwant %q", got, golden)
	}
	if back, ok := ParseTraced(got[1+FrameHeaderLen:]); !ok || back != want {
		t.Errorf("read back as %+v, %v", back, ok)
	}
	for _, other := range []string{"", OK, "OK" + string(make([]byte, 27)), "NO" + string(make([]byte, 28))} {
		if _, ok := ParseTraced([]byte(other)); ok {
			t.Errorf("%q was read", other)
		}
	}
}

// FuzzExtensionBodies checks that what stands before a message and the message are the
// body, and that nothing is read that is not there.
func FuzzExtensionBodies(f *testing.F) {
	f.Add([]byte("\x00\x02{}x"))
	f.Add([]byte("12345678x"))
	f.Add([]byte("\xff\xff{}"))
	f.Fuzz(func(t *testing.T, body []byte) {
		if id, message, err := SplitTraced(body); err == nil {
			again := append(binary.BigEndian.AppendUint64(nil, id), message...)
			if len(message) == 0 || !bytes.Equal(again, body) {
				t.Errorf("%q is trace id %x and %q", body, id, message)
			}
		}
		header, message, err := SplitExtended(body)
		if err != nil {
			return
		}
		again := binary.BigEndian.AppendUint16(nil, uint16(len(header)))
		again = append(append(again, header...), message...)
		if len(message) == 0 || cap(header) != len(header) || !bytes.Equal(again, body) {
			t.Errorf("%q is header %q and %q", body, header, message)
		}
	})
}
