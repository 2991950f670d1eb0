package blackbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/test/nodes"
	nsq "github.com/brokerd/brokerd/test/wire"
)

// keyedMessage is a message of one key, numbered by its producer.
type keyedMessage struct {
	Key string
	N   int
}

// keyWatch records what was delivered and finished of each key.
type keyWatch struct {
	t *testing.T

	mu       sync.Mutex // guards the fields below
	last     map[string]int
	finished map[string]int
	term     int // the number of killed leaders
}

// delivered reports whether a message may be delivered: it is the last message of its key again, or
// the next one after the last was answered. Deliveries of a killed leader do not count.
func (w *keyWatch) delivered(m keyedMessage, term int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, some := w.last[m.Key]
	switch {
	case term != w.term:
		return false
	case !some:
		last = -1
	}
	if m.N != last && (m.N != last+1 || some && w.finished[m.Key] != last) {
		w.t.Errorf("message %d of %s is delivered after %d, finished %d", m.N, m.Key, last, w.finished[m.Key])
	}
	w.last[m.Key] = m.N
	return true
}

func (w *keyWatch) finish(m keyedMessage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finished[m.Key] = m.N
}

// done returns the number of keys whose messages are all finished.
func (w *keyWatch) done(messages int) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, last := range w.finished {
		if last == messages-1 {
			n++
		}
	}
	return n
}

// consumeKeys consumes from the current leader until it would reconnect after stop. It requeues
// some messages.
func consumeKeys(c *nodes.Cluster, w *keyWatch, rng *rand.Rand, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		w.mu.Lock()
		term := w.term
		w.mu.Unlock()
		topic, err := c.Topic(w.t.Context(), "keyed")
		if err != nil || c.Node(topic.Partitions[0].Leader) == nil {
			continue
		}
		conn, err := nsq.Dial(c.Node(topic.Partitions[0].Leader).TCP, nsq.Options{ID: "consumer", UserAgent: "test/1", MsgTimeout: time.Minute, Timeout: 5 * time.Second})
		if err != nil {
			continue
		}
		if conn.Command("SUB", "keyed", "c") == nil && conn.Expect("OK") == nil && conn.Ready(5) == nil && conn.Flush() == nil {
			handleKeys(conn, w, term, rng, stop)
		}
		_ = conn.Close()
	}
}

func handleKeys(conn *nsq.Client, w *keyWatch, term int, rng *rand.Rand, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		kind, data, err := conn.AnswerBefore(time.Now().Add(time.Second))
		if err != nil && !errors.Is(err, nsq.ErrQuiet) {
			return
		}
		if err != nil || kind != nsq.FrameMessage {
			continue
		}
		d, err := nsq.ParseMessage(data)
		var m keyedMessage
		if err != nil || json.Unmarshal(d.Body, &m) != nil {
			w.t.Errorf("a message is %q", data)
			return
		}
		if !w.delivered(m, term) {
			return
		}
		if rng.IntN(20) == 0 {
			err = conn.Command("REQ", string(d.ID[:]), "20")
		} else {
			w.finish(m)
			err = conn.Command("FIN", string(d.ID[:]))
		}
		if err != nil || conn.Flush() != nil {
			return
		}
	}
}

// produceKeys publishes messages of several keys in turn, each until it is acknowledged.
func produceKeys(t *testing.T, addresses []string, keys []string, messages int) {
	for n := range messages {
		for i, key := range keys {
			body := fmt.Sprintf(`{"Key":%q,"N":%d}`, key, n)
			for try := 0; ; try++ {
				r, err := httpTo("http://"+addresses[(i+n+try)%len(addresses)]+"/pub?topic=keyed", "POST", body)
				if err == nil && r.code == 200 {
					break
				}
				if try > 5000 {
					t.Errorf("%s: %+v, %v", body, r, err)
					return
				}
			}
		}
	}
}

// TestKeyIsInOrderWhenLeadersAreKilled consumes a channel ordered by key with ordinary consumers,
// while the leader is killed repeatedly.
func TestKeyIsInOrderWhenLeadersAreKilled(t *testing.T) {
	t.Parallel()
	const producers, keys, messages, consumers, kills = 3, 6, 60, 6, 2
	c, addresses := startCluster(t, 3)
	if err := c.CreateTopic(t.Context(), "keyed", map[string]any{"key_from": "json:/Key"}); err != nil {
		t.Fatal(err)
	}
	if r, err := ask(t, addresses, "POST", "/v1/topics/keyed/channels", `{"name":"c","order":"key"}`); err != nil || r.code != 201 {
		t.Fatalf("%+v, %v", r, err)
	}
	w := &keyWatch{t: t, last: map[string]int{}, finished: map[string]int{}}
	stop := make(chan struct{})
	var wg, consuming sync.WaitGroup
	for range consumers {
		rng := rand.New(rand.NewPCG(testrand.New(t).Uint64(), 1))
		consuming.Go(func() { consumeKeys(c, w, rng, stop) })
	}
	for p := range producers {
		var mine []string
		for k := range keys {
			mine = append(mine, fmt.Sprintf("key-%d-%d", p, k))
		}
		wg.Go(func() { produceKeys(t, addresses, mine, messages) })
	}
	for k := range kills {
		eventually(t, "messages are delivered", func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.last) == producers*keys && w.last["key-0-0"] > (k+1)*messages/(kills+2)
		})
		killLeaderOf(t, c, w)
	}
	wg.Wait()
	eventually(t, "everything is finished", func() bool { return w.done(messages) == producers*keys })
	close(stop)
	consuming.Wait()
}

// killLeaderOf kills the leader of the topic and starts it again.
func killLeaderOf(t *testing.T, c *nodes.Cluster, w *keyWatch) {
	t.Helper()
	topic, err := c.Topic(t.Context(), "keyed")
	n := c.Node(topic.Partitions[0].Leader)
	if err != nil || n == nil {
		t.Fatalf("no leader: %v", err)
	}
	w.mu.Lock()
	w.term++ // messages that it sent before are read late
	err = n.End(syscall.SIGKILL)
	w.mu.Unlock()
	if err == nil {
		err = n.Start()
	}
	if err == nil {
		err = n.Ready(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}
