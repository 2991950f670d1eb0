package processing

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// A consumer does not keep for ever when messages were published that it lost: they timed
// out, and others finished them.
func TestLostPublishesAreForgotten(t *testing.T) {
	var p Published
	for o := range seq.Offset(Least - 1) {
		p.Add(o, time.Duration(o))
	}
	none := func() []seq.Offset { return nil }
	if p.Trim(0, none); p.Len() != Least-1 {
		t.Errorf("%d are kept of few", p.Len())
	}
	p.Add(Least, Least)
	if p.Trim(0, none); p.Len() != 0 {
		t.Errorf("%d are kept of none", p.Len())
	}
}
