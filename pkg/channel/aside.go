package channel

import (
	"math"

	"github.com/brokerd/brokerd/pkg/seq"
)

// setAside is what a ready message that is set aside has in place of its lot.
const setAside = -1

// aside holds the ready messages that are not visible yet, as in a paused topic, so that they do not
// block visible ones behind them. They count as ready.
type aside struct {
	list  list
	least seq.Offset // none of them has a lower offset
}

// firstReady returns the first ready message below end, and sets aside those before it. Messages that
// were set aside come back, before all others, once one of them may be visible.
func (l *ledger) firstReady(end seq.Offset) (int32, bool) {
	if l.ready == 0 {
		return 0, false
	}
	t := l.t
	if t.aside.list.head != 0 && t.aside.least < end {
		for slot := t.aside.list.tail; slot != 0; slot = t.aside.list.tail {
			t.unlink(&t.aside.list, slot)
			t.intoReadyFront(slot)
		}
	}
	if t.aside.list.head == 0 {
		t.aside.least = math.MaxUint64
	}
	for slot := t.ready.head; slot != 0; slot = t.ready.head {
		m := &t.slots[slot]
		if m.offset < end {
			return slot, true
		}
		t.unlink(&t.ready, slot)
		m.due = setAside
		t.append(&t.aside.list, slot)
		t.aside.least = min(t.aside.least, m.offset)
	}
	return 0, false
}
