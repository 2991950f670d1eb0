package peer

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/peertest"
)

// A call that takes longer to transfer than the timeout of a silent connection
// must still arrive: the side that only receives sends signs of life.
func TestLargeCallPassesSlowLink(t *testing.T) {
	for _, tt := range []struct {
		name     string
		from, to string
		rate     int
	}{
		{"a call of 4 MiB at 1 Mbit/s", "a", "b", 125_000},
		{"a call of 4 MiB at 256 kbit/s", "a", "b", 32_000},
		{"an answer of 4 MiB at 1 Mbit/s", "b", "a", 125_000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := peertest.NewNetwork()
				large := make([]byte, 4<<20)
				o := memOptions(n, "b")
				o.Handlers[ClassForward] = handlerFunc(func(_ Node, _ uint64, kind uint8, _ []byte, reply func([][]byte, error)) {
					if kind == 2 {
						reply([][]byte{large}, nil)
						return
					}
					reply(nil, nil)
				})
				b, addr := node(t, o, "b:1")
				var told events
				oa := memOptions(n, "a")
				oa.OnEvent = told.add
				a, _ := node(t, oa, "a:1")
				n.SetLink(tt.from, tt.to, peertest.Link{Rate: tt.rate})
				p := a.Peer("b", ClassForward, addr)
				began := time.Now()
				var err error
				if tt.from == "a" {
					_, err = p.Call(t.Context(), 1, [][]byte{large})
				} else {
					_, err = p.Call(t.Context(), 2, nil)
				}
				if err != nil || len(told.of(EventDown)) != 0 {
					t.Errorf("after %s: %v; sessions that ended: %d", time.Since(began), err, len(told.of(EventDown)))
				}
				a.Close()
				b.Close()
			})
		})
	}
}
