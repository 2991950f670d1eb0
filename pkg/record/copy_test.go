package record

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCopyIsForOneChannelAndNoOlderThanItsOrigin(t *testing.T) {
	origin := Message{
		Body: []byte("b"), Delay: time.Minute, TraceID: 7, Header: []byte("{}"), Key: []byte("k"), Dedup: []byte("d"), TTL: time.Hour,
	}
	to := Address{Channel: 5, Partition: 1, Offset: 9, Timestamp: 100, Attempts: 2}
	got, ok := CopyTo(to, encode(&origin), time.Second, 20*time.Minute, 0)
	want := origin
	to.First = 9
	want.Delay, want.Dedup, want.TTL, want.Address = time.Second, nil, 40*time.Minute, &to
	if d := cmp.Diff(want, got); d != "" || !ok {
		t.Errorf("copied %v (-want +got):\n%s", ok, d)
	}
	to.Timestamp = 200
	again, ok := CopyTo(to, encode(&got), 0, time.Hour, 0)
	if !ok || again.Address.Timestamp != 100 || again.TTL != 1 {
		t.Errorf("copied again %v: %+v of %v; want the first timestamp, and no more time to live", ok, again.Address, again.TTL)
	}
	to.Offset, to.Moves = 30, true // the copy of what an operator sent to the channel is another message
	moved, ok := CopyTo(to, encode(&got), 0, 0, 0)
	to.Offset = 50
	if twice, also := CopyTo(to, encode(&moved), 0, 0, 0); !ok || !also || moved.Address.First != 30 || twice.Address.First != 30 || twice.Address.Offset != 50 {
		t.Errorf("moved to %+v and %+v; want the first offset, 30", moved.Address, twice.Address)
	}
	to.Channel = 6
	if _, ok := CopyTo(to, encode(&got), 0, 0, 0); ok {
		t.Error("what is for another channel is copied")
	}
	plain, ok := CopyTo(to, encode(&Message{Body: []byte("b")}), 0, time.Minute, time.Hour)
	if !ok || plain.TTL != 59*time.Minute {
		t.Errorf("copied %v, lives for %v", ok, plain.TTL)
	}
}
