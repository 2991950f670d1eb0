package forward

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/topic"
)

// TestLargestPublishFitsIntoAFrame: the limit of a publish counts the size of its records in a log.
// A forwarded publish takes little more.
func TestLargestPublishFitsIntoAFrame(t *testing.T) {
	rnd := testrand.New(t)
	near := []int{0, 1, 126, 127, 128, 16382, 16383, 16384, 60000}
	for range 2000 {
		var all Messages
		for range 1 + rnd.IntN(20) {
			m := topic.Message{Body: make([]byte, near[rnd.IntN(len(near))])}
			if rnd.IntN(2) == 0 {
				m.Header = make([]byte, near[rnd.IntN(len(near))])
			}
			if rnd.IntN(3) == 0 {
				m.Delay = time.Second
			}
			if rnd.IntN(3) == 0 {
				m.TraceID = rnd.Uint64()
			}
			if rnd.IntN(3) == 0 {
				m.Key, m.Dedup, m.TTL = make([]byte, 1+rnd.IntN(topic.MaxKey)), make([]byte, 1+rnd.IntN(topic.MaxDedup)), time.Second
			}
			if rnd.IntN(9) == 0 {
				m.From = &record.Publisher{Client: string(make([]byte, rnd.IntN(130))), Node: "n1"}
			}
			all = append(all, m)
		}
		forwarded := len(all.Append(nil))
		if size := all.Size(); size != forwarded {
			t.Fatalf("%d bytes are appended, Size says %d", forwarded, size)
		}
		if stored := topic.StoredSize(all); forwarded > stored+stored/(16<<10)+8+140*len(all) {
			t.Fatalf("%d bytes in a log are %d forwarded", stored, forwarded)
		}
	}
	s := limit.Default()
	head := (&Publish{Topic: string(make([]byte, 64)), Incarnation: 1<<64 - 1, Partition: 1023, Round: 1<<64 - 1, Number: 1<<64 - 1}).AppendHead(nil)
	if largest := len(head) + s.Entry + s.Entry/(16<<10) + 8 + 256; largest > s.Frame {
		t.Errorf("the largest publish takes %d bytes of a frame of %d", largest, s.Frame)
	}
}
