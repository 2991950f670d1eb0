package audit

import (
	"fmt"
	"strings"
	"testing"
)

func placeID(offset int) (id ID) {
	copy(id[:], fmt.Sprintf("%016x", offset))
	return id
}

// TestOrderIsChecked tells histories of one ordered channel and what is wrong in them.
func TestOrderIsChecked(t *testing.T) {
	key := func(producer, seq int) Key { return Key{Producer: producer, Seq: seq} }
	take := func(o *Order, offset int, k Key) {
		o.Deliver(placeID(offset), k)
		o.Finish(placeID(offset))
	}
	tests := []struct {
		name  string
		want  string // in the violation; "" is none
		story func(o *Order)
	}{
		{"one after the other", "", func(o *Order) {
			take(o, 0, key(0, 0))
			take(o, 1, key(1, 0))
			take(o, 2, key(0, 1))
		}},
		{"again before the next", "", func(o *Order) {
			take(o, 0, key(0, 0))
			take(o, 0, key(0, 0))
			take(o, 1, key(0, 1))
		}},
		{"a message whose fate is open is left out", "", func(o *Order) {
			take(o, 0, key(0, 0))
			take(o, 1, key(0, 2))
		}},
		{"two at a time", "before", func(o *Order) {
			o.Deliver(placeID(0), key(0, 0))
			o.Deliver(placeID(1), key(0, 1))
		}},
		{"the next although the redelivery is not finished", "before", func(o *Order) {
			take(o, 0, key(0, 0))
			o.Deliver(placeID(0), key(0, 0))
			o.Deliver(placeID(1), key(0, 1))
		}},
		{"again after the next", "had to be finished", func(o *Order) {
			take(o, 0, key(0, 0))
			take(o, 1, key(0, 1))
			take(o, 0, key(0, 0))
		}},
		{"an acknowledged message is left out", "skipped", func(o *Order) {
			o.Acknowledge(key(0, 1))
			take(o, 0, key(0, 0))
			take(o, 1, key(0, 2))
		}},
		{"a producer's messages change places", "came after", func(o *Order) {
			take(o, 0, key(0, 1))
			take(o, 1, key(0, 0))
		}},
		{"one place, two messages", "is both", func(o *Order) {
			take(o, 0, key(0, 0))
			take(o, 0, key(1, 0))
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o := NewOrder()
			test.story(o)
			found := strings.Join(o.Found, "; ")
			if (test.want == "") != (found == "") || !strings.Contains(found, test.want) {
				t.Errorf("found %q, want %q", found, test.want)
			}
		})
	}
}

func TestAcknowledgedMessagesAreOwedUntilDelivered(t *testing.T) {
	o := NewOrder()
	k := Key{Producer: 1, Seq: 0}
	o.Acknowledge(k)
	if o.Owed() != 1 {
		t.Errorf("%d owed", o.Owed())
	}
	o.Deliver(placeID(3), k)
	if o.Owed() != 0 {
		t.Errorf("%d owed after it came", o.Owed())
	}
	o.Acknowledge(k) // the answer came after the message
	if o.Owed() != 0 {
		t.Errorf("%d owed after a late answer", o.Owed())
	}
}
