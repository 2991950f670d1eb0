package topic

import (
	"fmt"
	"strings"
	"testing"
)

// TestMessagesOfATagThatNoConsumerTakesStopNoOther: keys are read for the
// consumers that take.
func TestMessagesOfATagThatNoConsumerTakesStopNoOther(t *testing.T) {
	b, c := keyedBench(t)
	b.join(c, wants("a")) // takes nothing
	plain := b.join(c)
	const all, others = 2*keyScanMax + 9, 5
	var messages []Message
	for i := range all {
		m := tagged("", i)
		if i < others {
			m = tagged("a", i)
		}
		m.Key = fmt.Appendf(nil, "k%d", i)
		messages = append(messages, m)
	}
	b.publishAll(messages)
	n := 0
	for got := plain.take(1, b.now); got != ""; got = plain.take(1, b.now) {
		plain.finish(strings.Fields(got)...)
		n++
	}
	if n != all-others {
		t.Errorf("got %d of %d; %+v", n, all-others, c.Stats())
	}
}
