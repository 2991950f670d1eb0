package topic

import (
	"fmt"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/record"
)

// shapes are messages of every shape, by name.
var shapes = []struct {
	name string
	m    Message
}{
	{"plain", Message{}},
	{"everything", Message{
		Delay: time.Hour, TraceID: 1, Header: []byte("{}"), Key: []byte("k"), Dedup: []byte("d"), TTL: 1, Address: &record.Address{Channel: 1},
	}},
}

// TestStoredSizeMatchesBatchGrowth holds StoredSize to the codec, at the lengths
// where the number before a record takes another byte.
func TestStoredSizeMatchesBatchGrowth(t *testing.T) {
	for _, extra := range shapes {
		for _, n := range []int{0, 1, 116, 117, 118, 125, 126, 127, 128, 16370, 16380, 16381, 16382, 16383, 16384} {
			m := extra.m
			m.Body = make([]byte, n)
			t.Run(fmt.Sprint(extra.name, n), func(t *testing.T) {
				// Sixteen of them, since Size is aligned.
				b := new(commitlog.Builder)
				before := b.Size()
				for range 16 {
					appendRecord(&m, b)
				}
				grown := b.Size() - before
				if d := grown - 16*StoredSize([]Message{m}); d < 0 || d >= 8 {
					t.Errorf("16 records take %d bytes, one %d", grown, StoredSize([]Message{m}))
				}
			})
		}
	}
}
