package nsqd

import (
	"encoding/binary"
	"testing"

	"github.com/brokerd/brokerd/pkg/admin/web"
)

// FuzzSplit checks that messages are always parts of the body and within the limits, and that a
// binary body is consumed completely.
func FuzzSplit(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02\x00\x00\x00\x01a\x00\x00\x00\x02bb"))
	f.Add([]byte("a\nb\n\n"))
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1, 'x'})
	limits := web.Limits{MaxMessage: 100, MaxBody: 1000}
	f.Fuzz(func(t *testing.T, body []byte) {
		list, err := splitBinary(body, limits, nil)
		if err == nil {
			again := binary.BigEndian.AppendUint32(nil, uint32(len(list)))
			for _, m := range list {
				if len(m.Body) == 0 || len(m.Body) > limits.MaxMessage {
					t.Errorf("a message of %d bytes", len(m.Body))
				}
				again = binary.BigEndian.AppendUint32(again, uint32(len(m.Body)))
				again = append(again, m.Body...)
			}
			if string(again) != string(body) {
				t.Errorf("%q became %q", body, again)
			}
		}
		list, err = splitLines(body, limits, nil)
		if err != nil {
			return
		}
		for _, m := range list {
			if len(m.Body) == 0 || len(m.Body) > limits.MaxMessage {
				t.Errorf("a line of %d bytes", len(m.Body))
			}
		}
	})
}
