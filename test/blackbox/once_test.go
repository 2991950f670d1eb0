package blackbox

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/brokerd/brokerd/test/nodes"
)

// peeked is a message as /v1 shows it.
type peeked struct {
	ID, Key, Dedup, Text string
	TTLMS                int64 `json:"ttl_ms"`
}

// ask sends an HTTP request to the given addresses in turn until one answers.
func ask(t *testing.T, addresses []string, method, path, body string) (reply, error) {
	t.Helper()
	var last error
	for _, a := range addresses {
		r, err := httpTo("http://"+a+path, method, body)
		if err == nil {
			return r, nil
		}
		last = err
	}
	return reply{}, last
}

// dedupIDs returns the dedup ids of a topic's messages, in order.
func dedupIDs(t *testing.T, addresses []string, topic string) (ids []string) {
	t.Helper()
	for from := 0; ; {
		r, err := ask(t, addresses, "GET", fmt.Sprintf("/v1/topics/%s/messages?n=1000&partition=0&from=%d", topic, from), "")
		if err != nil || r.code != 200 {
			t.Fatalf("%+v, %v", r, err)
		}
		var list struct{ Messages []peeked }
		if err := json.Unmarshal([]byte(r.body), &list); err != nil {
			t.Fatal(err)
		}
		if len(list.Messages) == 0 {
			return ids
		}
		for _, m := range list.Messages {
			ids = append(ids, m.Dedup)
		}
		from += len(list.Messages)
	}
}

// produceOnce has producers publish with dedup ids, each message until it is acknowledged, while
// harm runs.
func produceOnce(t *testing.T, addresses []string, topic string, producers, messages int, harm func()) {
	t.Helper()
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			for n := range messages {
				target := "/pub?topic=" + topic + "&dedup=" + url.QueryEscape(fmt.Sprintf("p%d/%d", p, n))
				for i := 0; ; i++ {
					r, err := httpTo("http://"+addresses[(p+n+i)%len(addresses)]+target, "POST", "x")
					if err == nil && r.code == 200 {
						break
					}
					if i > 2000 {
						t.Errorf("producer %d, message %d: %+v, %v", p, n, r, err)
						return
					}
				}
			}
		})
	}
	harm()
	wg.Wait()
}

// checkOnce expects each message of each producer once, in order.
func checkOnce(t *testing.T, ids []string, producers, messages int) {
	t.Helper()
	next := make([]int, producers)
	for _, id := range ids {
		var p, n int
		if _, err := fmt.Sscanf(id, "p%d/%d", &p, &n); err != nil || p >= producers {
			t.Fatalf("dedup id %q: %v", id, err)
		}
		if n != next[p] {
			t.Fatalf("producer %d: message %d comes where %d should", p, n, next[p])
		}
		next[p]++
	}
	for p, n := range next {
		if n != messages {
			t.Errorf("producer %d: %d messages are stored, want %d", p, n, messages)
		}
	}
}

// TestIDIsStoredOnceWhenLeadersAreKilled kills the leader repeatedly, on one node and in a cluster
// of three.
func TestIDIsStoredOnceWhenLeadersAreKilled(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) { killLeaders(t, n) })
	}
}

// startCluster starts a cluster of n nodes, and also returns their HTTP addresses.
func startCluster(t *testing.T, size int, args ...string) (*nodes.Cluster, []string) {
	t.Helper()
	at, err := ports.Free(size)
	if err != nil {
		t.Fatal(err)
	}
	c, err := nodes.New(nodes.Options{Program: programs + "/brokerd", Dir: t.TempDir(), Nodes: at, Args: args})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	var addresses []string
	for _, n := range c.Nodes {
		addresses = append(addresses, n.HTTP)
	}
	return c, addresses
}

func killLeaders(t *testing.T, size int) {
	const producers, messages, kills = 4, 150, 3
	c, addresses := startCluster(t, size)
	if err := c.CreateTopic(t.Context(), "once", map[string]any{}); err != nil {
		t.Fatal(err)
	}
	stored := func() int { return len(dedupIDs(t, addresses, "once")) }
	produceOnce(t, addresses, "once", producers, messages, func() {
		for k := range kills {
			eventually(t, "messages are stored", func() bool { return stored() > k*producers*messages/(kills+1) })
			topic, err := c.Topic(t.Context(), "once")
			n := c.Node(topic.Partitions[0].Leader)
			if err != nil || n == nil {
				continue // an election is in progress
			}
			if err = n.End(syscall.SIGKILL); err == nil {
				err = n.Start()
			}
			if err == nil {
				err = n.Ready(t.Context())
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	checkOnce(t, dedupIDs(t, addresses, "once"), producers, messages)
}

func TestPublishedMessageProperties(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	ctl := func(args ...string) string {
		t.Helper()
		code, out, errs := run(t, "brokerctl", append([]string{"--addr", "http://" + n.address("HTTP")}, args...)...)
		if code != 0 {
			t.Fatalf("%v: exit %d\n%s", args, code, errs)
		}
		return out
	}
	ctl("topic", "create", "orders", "--key-from", "json:/order/id", "--ttl", "1h", "--dedup-window", "2h")
	body := `{"order":{"id":7}}`
	for range 3 {
		n.post("/pub?topic=orders&dedup=a&ttl=60000", body)
	}
	var first, again struct{ IDs []string }
	for _, into := range []any{&first, &again} {
		if err := json.Unmarshal([]byte(ctl("message", "pub", "orders", "--dedup", "b", "--key", "k", "one", "two", "-o", "json")), into); err != nil {
			t.Fatal(err)
		}
	}
	if len(first.IDs) != 2 || strings.Join(first.IDs, " ") != strings.Join(again.IDs, " ") {
		t.Errorf("ids %v, then %v", first.IDs, again.IDs)
	}
	var list struct{ Messages []peeked }
	if err := json.Unmarshal([]byte(n.get("/v1/topics/orders/messages")), &list); err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, m := range list.Messages {
		got += fmt.Sprintf("%s %s %s %d\n", m.Text, m.Key, m.Dedup, m.TTLMS)
	}
	if want := body + " 7 a 60000\none k b/0 0\ntwo k b/1 0\n"; got != want {
		t.Errorf("stored\n%swant\n%s", got, want)
	}
	if w := n.consumer("short", "c", 0, "{}"); w != nil {
		n.post("/pub?topic=short&ttl=1", "gone")
		n.post("/pub?topic=short", "stays")
		eventually(t, "the message expires", func() bool { return n.channel("short", "c").Depth == 2 })
		w.send("RDY 1\n")
		if m := w.message(); m.body != "stays" {
			t.Errorf("delivered %q", m.body)
		}
	}
	if metrics := n.get("/metrics"); !strings.Contains(metrics, `brokerd_channel_expired_total{channel="c",topic="short"} 1`) {
		t.Error("the expired message is not counted")
	}
}
