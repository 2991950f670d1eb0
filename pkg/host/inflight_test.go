package host

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// Only what the leader of the epoch before has told counts, once, and not for long: it may have continued to lead.
func TestInFlightCountsInTheNextEpoch(t *testing.T) {
	at := time.Now()
	for name, x := range map[string]struct {
		epoch seq.Epoch
		after time.Duration
		want  bool
	}{
		"the next epoch":     {8, time.Second, true},
		"the same epoch":     {7, time.Second, false},
		"a later epoch":      {9, time.Second, false},
		"the next, too late": {8, topic.ReturnAfter + 1, false},
	} {
		hp := &Held{}
		if hp.inherited(x.epoch, at) != nil {
			t.Errorf("%s: inherited without a message", name)
		}
		hp.announced.Store(&announced{7, topic.InFlight{At: at}})
		if got := hp.inherited(x.epoch, at.Add(x.after)) != nil; got != x.want {
			t.Errorf("%s: inherited: %t", name, got)
		}
		if hp.inherited(x.epoch, at.Add(x.after)) != nil {
			t.Errorf("%s: inherited twice", name)
		}
	}
}
