package blackbox

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/brokerd/brokerd/test/nodes"
)

// threeNodes starts a cluster with further arguments, and returns it with its HTTP addresses and a brokerctl function.
func threeNodes(t *testing.T, more ...string) (c *nodes.Cluster, addresses []string, ctl func(args ...string) string) {
	t.Helper()
	c, addresses = startCluster(t, 3, more...)
	flags := []string{"--timeout", "30s"}
	for _, address := range addresses {
		flags = append(flags, "--addr", "http://"+address)
	}
	return c, addresses, func(args ...string) string {
		t.Helper()
		code, out, errs := run(t, "brokerctl", append(slices.Clip(flags), args...)...)
		if code != 0 {
			t.Fatalf("%v: exit %d\n%s", args, code, errs)
		}
		return out
	}
}

// killLeader kills the leader of a topic's first partition and starts it again.
func killLeader(t *testing.T, c *nodes.Cluster, topic string) {
	t.Helper()
	var leader *nodes.Node
	eventually(t, "the partition has a leader", func() bool {
		known, err := c.Topic(t.Context(), topic)
		if err != nil {
			return false
		}
		leader = c.Node(known.Partitions[0].Leader)
		return leader != nil
	})
	err := leader.End(syscall.SIGKILL)
	if err == nil {
		err = leader.Start()
	}
	if err == nil {
		err = leader.Ready(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// publishTo publishes to any of the nodes until the message is acknowledged, with a dedup id.
func publishTo(t *testing.T, addresses []string, target, body string) {
	t.Helper()
	eventually(t, "a publish is acknowledged", func() bool {
		r, err := ask(t, addresses, "POST", target, body)
		return err == nil && r.code == 200
	})
}

// An unmodified client on a filtered channel gets the selected messages, each at least once and no
// others, whichever leader is killed. The other channel gets all messages.
func TestFilteredChannelSurvivesTheLeader(t *testing.T) {
	t.Parallel()
	c, addresses, ctl := threeNodes(t)
	ctl("topic", "create", "orders")
	ctl("channel", "create", "orders/even", "--filter", `key == "even" && attempts < 100`)
	ctl("channel", "create", "orders/all")
	const count = 300
	want := map[string]bool{}
	for i := range count {
		key := "odd"
		if i%2 == 0 {
			key = "even"
			want[fmt.Sprint(i)] = true
		}
		publishTo(t, addresses, "/pub?topic=orders&key="+key+"&dedup="+url.QueryEscape(fmt.Sprint("m", i)), fmt.Sprint(i))
		if i%100 == 50 {
			killLeader(t, c, "orders")
		}
	}
	seen := map[string]bool{}
	for round := 0; len(seen) < len(want); round++ {
		if round > 30 {
			t.Fatalf("%d of %d messages came", len(seen), len(want))
		}
		n := c.Nodes[round%3]
		w := dialTo(t, n.TCP)
		w.send("SUB orders even\n")
		if _, data, err := w.next(patience); err != nil || data != "OK" {
			continue // its node is being killed
		}
		w.send("RDY 20\n")
		for {
			m, ok := w.messageWithin(time.Second)
			if !ok {
				break
			}
			if !want[m.body] {
				t.Fatalf("message %s came", m.body)
			}
			seen[m.body] = true
			w.fin(m)
		}
		if round == 0 {
			killLeader(t, c, "orders")
		}
	}
	var even, all struct{ Depth int }
	eventually(t, "everything is finished", func() bool {
		err := json.Unmarshal([]byte(ctl("channel", "describe", "orders/even", "-o", "json")), &even)
		return err == nil && even.Depth == 0
	})
	if err := json.Unmarshal([]byte(ctl("channel", "describe", "orders/all", "-o", "json")), &all); err != nil || all.Depth != count {
		t.Errorf("the other channel has %d of %d messages, %v", all.Depth, count, err)
	}
	if out := ctl("channel", "alter", "orders/even", "--no-filter", "-o", "json"); !strings.Contains(out, `"filter":""`) {
		t.Errorf("altered: %s", out)
	}
}

// dialTo opens a connection of the V2 protocol to an address.
func dialTo(t *testing.T, address string) *wire {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	w := &wire{t: t, Conn: conn}
	w.send("  V2")
	return w
}
