package broker

import (
	"fmt"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/deadletter"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/topic"
)

// A client that crashes at one of many messages, from several partitions that its node leads, that other nodes lead, or
// both: that message alone becomes a dead letter, after a bounded number of crashes, and the client finishes the others.
func TestOnlyTheMessageThatEndsItsConsumerIsExhausted(t *testing.T) {
	for name, leaders := range map[string][]meta.NodeID{
		"local":   {"n1", "n1", "n1"},
		"relayed": {"n2", "n3", "n2"},
		"mixed":   {"n1", "n2", "n3"},
	} {
		t.Run(name, func(t *testing.T) {
			const messages, attempts, poison = 90, 3, "040"
			m := newMesh(t, "n1", "n2", "n3")
			m.create("t", leaders...)
			n := m.nodes["n1"]
			c := n.subscribe("t", "c")
			n.bound("t", "c", policy.Patch{MaxAttempts: new(attempts)})
			for i := range messages {
				r := n.publish(publish.Request{Topic: "t", Partition: i % len(leaders), Messages: []topic.Message{{Body: fmt.Appendf(nil, "%03d", i)}}})
				if r.Err != nil {
					t.Fatal(r.Err)
				}
			}
			for finished, crashes := 0, 0; ; {
				c.SetReady(messages)
				crashed := false
				for deadline := time.Now().Add(4 * time.Second); !crashed && time.Now().Before(deadline); {
					var got []topic.Delivery
					took, err := c.Take(time.Now(), messages, func(d *topic.Delivery) error {
						e := *d
						e.Body = append([]byte(nil), d.Body...)
						got = append(got, e)
						return nil
					})
					if err != nil {
						t.Fatal(err)
					}
					for _, d := range got {
						if crashed = string(d.Body) == poison; crashed {
							break
						}
						if d.Alone && len(got) > 1 {
							t.Fatalf("%s is isolated, and delivered with %d others", d.Body, len(got)-1)
						}
						if err := c.Finish(d.ID); err != nil {
							t.Fatal(err)
						}
						finished++
					}
					if took == 0 {
						select {
						case <-c.woken:
						case <-time.After(time.Until(deadline)):
						}
					}
				}
				if !crashed {
					if finished < messages-1 {
						t.Errorf("%d messages are finished", finished)
					}
					break
				}
				c.Close()
				if crashes++; crashes > attempts+3 {
					t.Fatalf("%d crashes", crashes)
				}
				c = n.subscribe("t", "c")
			}
			letters, err := n.Contents.Peek(t.Context(), operate.Peek{Topic: "t.c.dlq", Channel: deadletter.Channel, Partition: host.AnyPartition, Max: messages})
			if err != nil || len(letters) != 1 || string(letters[0].Body) != poison {
				t.Errorf("%d dead letters, %v", len(letters), err)
			}
		})
	}
}
