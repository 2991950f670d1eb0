package blackbox

import (
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
)

// A message goes to a ready and idle consumer, although consumers that were ready before are not
// any more.
func TestMessageReachesReadyConsumer(t *testing.T) {
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
			second.fin(second.message())
		})
	}
}

// However consumers change their RDY, no message waits that one of them could receive. Messages are
// published in bursts, and each burst begins after the previous one is delivered, so that no later
// message wakes a consumer by accident.
func TestNoMessageWaitsForTheNext(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	for _, topic := range []string{
		`{"name":"always","config":{"sync":"always"}}`, `{"name":"interval","config":{"sync":"interval"}}`,
		`{"name":"parts","config":{"partitions":4}}`,
	} {
		if r := n.http("POST", "/v1/topics", topic); r.code >= 300 {
			t.Fatalf("%s: %d %s", topic, r.code, r.body)
		}
	}
	seed := testrand.Seed(t)
	for i, topic := range []string{"always", "interval", "parts"} {
		t.Run(topic, func(t *testing.T) {
			t.Parallel()
			burst(t, n, topic, rand.New(rand.NewPCG(seed, uint64(i))), 4*time.Second)
		})
	}
}

// burst publishes to a topic and expects each message to be delivered soon.
func burst(t *testing.T, n *node, topic string, r *rand.Rand, d time.Duration) {
	t.Helper()
	delivered := make(chan string, 1000)
	var consumers []*wire
	for i := range 5 {
		w := n.consumer(topic, "c", 1+i%2*20, "{}")
		consumers = append(consumers, w)
		go func() { // ends with the connection
			for {
				kind, data, err := w.next(time.Minute)
				if err != nil {
					return
				}
				if kind == frameMessage {
					delivered <- data[26:]
					if _, err := io.WriteString(w, "FIN "+data[10:26]+"\n"); err != nil {
						return
					}
				}
			}
		}()
	}
	p := n.dial()
	number := 0
	for begin := time.Now(); time.Since(begin) < d; {
		// The first consumer is always ready; the readiness of the others changes.
		for _, w := range consumers[1:] {
			w.send(fmt.Sprintf("RDY %d\n", r.IntN(3)))
		}
		want := map[string]bool{}
		for range 1 + r.IntN(4) {
			number++
			want[fmt.Sprint(number)] = true
			p.send(pub(topic, fmt.Sprint(number)))
			if r.IntN(2) == 0 {
				consumers[1+r.IntN(4)].send(fmt.Sprintf("RDY %d\n", r.IntN(2)))
			}
		}
		for range want {
			p.ok()
		}
		stuck := time.After(patience)
		for len(want) > 0 {
			select {
			case body := <-delivered:
				delete(want, body)
			case <-stuck:
				t.Fatalf("after %d messages %d wait for %v, and a consumer is ready: %+v", number, len(want), patience, n.channel(topic, "c"))
			}
		}
		if r.IntN(10) == 0 { // wait until all are idle
			<-time.After(time.Duration(r.IntN(60)) * time.Millisecond)
		}
	}
	t.Logf("%d messages", number)
}
