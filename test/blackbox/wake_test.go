package blackbox

import (
	"testing"
	"time"
)

// A message goes to a consumer that is ready and idle, whatever other consumers
// do that were ready before it and are no more.
func TestAMessageFindsTheConsumerThatIsReady(t *testing.T) {
	n := startNode(t)
	for _, tt := range []struct{ name, away string }{
		{"RDY 0", "RDY 0\n"},
		{"CLS", "CLS\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			topic := "wake-" + tt.name[:3]
			first := n.consumer(topic, "c", 1, "{}")
			eventually(t, "first waits", func() bool { return n.channel(topic, "c").Clients == 1 })
			first.silent(100 * time.Millisecond)
			second := n.consumer(topic, "c", 1, "{}")
			second.silent(100 * time.Millisecond)
			first.send(tt.away)
			if tt.name == "CLS" {
				if got := first.response(); got != "CLOSE_WAIT" {
					t.Fatal(got)
				}
			} else {
				first.alive("other")
			}
			n.post("/pub?topic="+topic, "x")
			begin := time.Now()
			m := second.message()
			if d := time.Since(begin); d > time.Second {
				t.Errorf("delivered after %v", d)
			}
			second.fin(m)
		})
	}
}
