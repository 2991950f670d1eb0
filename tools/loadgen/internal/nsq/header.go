package nsq

import (
	"encoding/binary"
	"math/rand/v2"
	"strconv"
)

// headers makes the headers of the messages of one publisher.
type headers struct {
	keys   int
	ids    bool
	prefix string // of dedup ids, the publisher's own
	count  int
	made   [][]byte
}

func newHeaders(keys int, ids bool) *headers {
	return &headers{keys: keys, ids: ids, prefix: strconv.FormatUint(rand.Uint64(), 36) + "-"}
}

// none reports whether messages have no headers.
func (h *headers) none() bool { return h.keys == 0 && !h.ids }

// some returns n headers, each behind its length, or nothing for each. They are valid until the next call.
func (h *headers) some(n int) [][]byte {
	for len(h.made) < n {
		h.made = append(h.made, nil)
	}
	if h.none() {
		return h.made[:n]
	}
	for i := range n {
		b := append(h.made[i][:0], 0, 0, '{')
		if h.keys > 0 {
			b = append(strconv.AppendInt(append(b, `"##key":"k`...), int64(h.count%h.keys), 10), '"')
		}
		if h.ids {
			if h.keys > 0 {
				b = append(b, ',')
			}
			b = append(append(b, `"##dedup_id":"`...), h.prefix...)
			b = append(strconv.AppendInt(b, int64(h.count), 10), '"')
		}
		b = append(b, '}')
		binary.BigEndian.PutUint16(b, uint16(len(b)-2))
		h.made[i] = b
		h.count++
	}
	return h.made[:n]
}
