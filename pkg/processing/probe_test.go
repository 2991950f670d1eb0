package processing

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

func TestProbeFollowsOneMessage(t *testing.T) {
	const timeout = time.Minute
	at := func(s int) time.Time { return time.Unix(1000+int64(s), 0) }
	var p Probe
	end := func(o seq.Offset, s int, want time.Duration, attempts int, wantOK bool) {
		t.Helper()
		if took, n, ok := p.End(o, at(s)); ok != wantOK || ok && (took != want || n != attempts) {
			t.Errorf("offset %d at %d s: %s, %d attempts, %t", o, s, took, n, ok)
		}
	}
	end(0, 0, 0, 0, false) // nothing is followed, not even offset 0
	p.Begin(0, at(0), 3, timeout)
	p.Begin(1, at(1), 1, timeout) // one at a time
	end(1, 2, 0, 0, false)
	end(0, 5, 5*time.Second, 3, true)
	end(0, 6, 0, 0, false) // once

	p.Begin(7, at(10), 1, timeout)
	p.Begin(8, at(70), 2, timeout) // 7 has timed out
	end(7, 71, 0, 0, false)
	end(8, 72, 2*time.Second, 2, true)

	p.Begin(9, at(80), 1, timeout)
	p.Drop(8)
	p.Drop(9)
	end(9, 81, 0, 0, false)

	p.Begin(5, at(90), 1, timeout)
	end(5, 89, 0, 1, true) // a clock that was set back
}
