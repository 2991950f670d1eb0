package nsq

import (
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

// next returns a header that is valid until the next call of some.
func (h *headers) next() []byte { return h.some(1)[0] }

// some returns n headers. They are valid until the next call.
func (h *headers) some(n int) [][]byte {
	for len(h.made) < n {
		h.made = append(h.made, nil)
	}
	for i := range n {
		b := append(h.made[i][:0], '{')
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
		h.made[i] = append(b, '}')
		h.count++
	}
	return h.made[:n]
}
