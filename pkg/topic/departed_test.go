package topic

import (
	"fmt"
	"testing"
	"time"
)

func TestConsumerThatLeftLastIsKnown(t *testing.T) {
	var d departed
	if name, left := d.Last(); name != "" || !left.IsZero() {
		t.Errorf("without departures: %s, %v", name, left)
	}
	at := time.Unix(1, 0)
	for i := range 3 * keepDeparted {
		d.Add(uint64(i), fmt.Sprint(i), at.Add(time.Duration(i)))
	}
	if name, left := d.Last(); name != fmt.Sprint(3*keepDeparted-1) || left != at.Add(3*keepDeparted-1) || d.Name(0) != "" {
		t.Errorf("%s, %v", name, left)
	}
}
