package topic

import (
	"testing"
)

// The receipt of a publish has the position of its first message and the size of all; a
// delivery has both for its message.
func TestPublisherAndConsumerSeeOnePosition(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	type place struct {
		position int64
		size     int64
	}
	var told []place
	publish := func(msgs ...Message) {
		b.p.Publish(msgs, func(r Receipt) { told = append(told, place{r.Position, r.RawSize}) })
	}
	long := Message{Body: make([]byte, 300), TraceID: 7, Header: []byte(`{"k":"v"}`)}
	publish(Message{Body: []byte("a")})
	publish(long, Message{Body: []byte("b")}, long)
	publish(Message{Body: []byte("c")})

	var seen []place
	k := b.join(c)
	for {
		n, err := k.Take(b.now, 1, func(d *Delivery) error {
			seen = append(seen, place{d.Position, int64(d.RawSize)})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	if len(seen) != 5 || len(told) != 3 {
		t.Fatalf("%d messages of %d publishes", len(seen), len(told))
	}
	for publish, first := range []int{0, 1, 4} {
		if told[publish].position != seen[first].position {
			t.Errorf("publish %d is at %d, its first message at %d", publish, told[publish].position, seen[first].position)
		}
	}
	for i := 1; i < 3; i++ {
		if seen[i].position+seen[i].size != seen[i+1].position {
			t.Errorf("message %d is at %d and has %d bytes, the next is at %d", i, seen[i].position, seen[i].size, seen[i+1].position)
		}
	}
	if sum := seen[1].size + seen[2].size + seen[3].size; told[1].size != sum {
		t.Errorf("a batch has %d bytes, its messages %d", told[1].size, sum)
	}
}
