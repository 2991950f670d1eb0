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
