package topic

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

func TestFirstConsumerChoosesStart(t *testing.T) {
	b := newBench(t)
	var positions []int64
	for i := range 5 {
		b.p.Publish([]Message{{Body: []byte(fmt.Sprint(i))}}, func(r Receipt) { positions = append(positions, r.Position) })
		b.now = b.now.Add(2 * time.Second)
	}
	second := b.wall(b.now.Add(-8*time.Second)) / int64(time.Second) // the time of message 1, in s
	for _, test := range []struct {
		start Start
		want  seq.Offset
	}{
		{Start{}, 2},
		{Start{StartAtEnd, 0}, 5},
		{Start{StartAtMessage, 0}, 0},
		{Start{StartAtMessage, 1}, 0},
		{Start{StartAtMessage, 5}, 4},
		{Start{StartAtMessage, 6}, 5},
		{Start{StartAtMessage, 1 << 62}, 5},
		{Start{StartAtPosition, 0}, 0},
		{Start{StartAtPosition, positions[1]}, 1},
		{Start{StartAtPosition, positions[4]}, 4},
		{Start{StartAtPosition, positions[4] + 1}, 4},
		{Start{StartAtPosition, 1 << 62}, 5},
		{Start{StartAtTime, 0}, 0},
		{Start{StartAtTime, second}, 1},
		{Start{StartAtTime, second + 1}, 2},
		{Start{StartAtTime, second + 100}, 5},
		{Start{StartAtTime, 253402300799}, 5}, // the end of the year 9999
	} {
		c := b.channel(fmt.Sprint("c", test.start), 1)
		if err := c.Seek(2); err != nil {
			t.Fatal(err)
		}
		if err := test.start.Move(t.Context(), c); err != nil || c.Floor() != test.want {
			t.Errorf("%+v: the channel is at %d, want %d: %v", test.start, c.Floor(), test.want, err)
		}
		k := b.join(c)
		if err := (Start{StartAtMessage, 4}).Move(t.Context(), c); err != nil || c.Floor() != test.want {
			t.Errorf("%+v: with a consumer the channel moved to %d: %v", test.start, c.Floor(), err)
		}
		k.Leave()
	}
	for _, bad := range []Start{{startKinds, 0}, {StartAtTime, -1}, {StartAtTime, second * 1000}, {StartAtTime, math.MaxInt64}} {
		if bad.Valid() {
			t.Errorf("%+v is valid", bad)
		}
	}
}
