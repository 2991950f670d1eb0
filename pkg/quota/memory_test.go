package quota

import (
	"errors"
	"testing"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/topic"
)

// TestEphemeralTopicIsBoundedAtAppend: the bound holds although nothing is dropped meanwhile.
func TestEphemeralTopicIsBoundedAtAppend(t *testing.T) {
	messages := []topic.Message{{Body: make([]byte, 100)}}
	n := int64(topic.StoredSize(messages))
	e := NewMemory(10*n, make(chan struct{}, 1), limit.Share{})
	for _, c := range []struct {
		stored  int64
		told    bool // whether a drop of the oldest is requested
		refused bool
	}{
		{stored: 0},
		{stored: 9 * n},
		{stored: 9*n + 1, told: true},
		{stored: 19 * n, told: true},
		{stored: 19*n + 1, told: true, refused: true},
	} {
		err := e.Reserve(c.stored, messages)
		if refused := errors.Is(err, failure.QueueFull); refused != c.refused || (err != nil) != c.refused {
			t.Errorf("with %d bytes stored: %v", c.stored, err)
		}
		told := false
		select {
		case <-e.full:
			told = true
		default:
		}
		if told != c.told {
			t.Errorf("with %d bytes stored: told %v", c.stored, told)
		}
	}
}

// TestRefundReturnsTheMemoryOfDroppedMessages, and not that of those which are stored.
func TestRefundReturnsTheMemoryOfDroppedMessages(t *testing.T) {
	messages := []topic.Message{{Body: make([]byte, 100)}}
	n := int64(topic.StoredSize(messages))
	budget := limit.NewMemory(1 << 20)
	e := NewMemory(100*n, make(chan struct{}, 1), budget.Share(limit.Ephemeral))
	for i := range int64(10) {
		if err := e.Reserve(i*n, messages); err != nil {
			t.Fatal(err)
		}
	}
	for _, stored := range []int64{10, 4, 4, 1, 0} {
		e.Refund(stored * n)
		if used := budget.Usage().Used; used != inMemory*stored*n {
			t.Errorf("with %d messages stored, %d bytes are reserved, want %d", stored, used, inMemory*stored*n)
		}
	}
}
