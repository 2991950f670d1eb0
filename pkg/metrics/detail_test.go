package metrics

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/stats"
)

// busyTopic returns a topic with a partition, a channel and a consumer.
func busyTopic(name string) stats.Topic {
	return stats.Topic{
		Name: name, Messages: 10, QuotaUsed: -1,
		Partitions: []stats.Partition{{Partition: 1, Leader: "n1", Epoch: 3, LogStart: 5, CommittedEnd: 20, LogEnd: 22, Bytes: 4096}},
		Channels: []stats.Channel{{
			Name:       "c",
			Consumers:  1,
			Partitions: []api.ChannelPartition{{Partition: 1, Leader: "n1", Confirmed: 12, Lag: 8, Blocked: new(uint64(12))}},
			Clients:    []stats.Client{{Consumer: api.Consumer{Address: "10.0.0.1:5000", ClientID: "worker\xff\"1\"", Ready: 4, InFlight: 2, FinishedTotal: 7}}},
		}},
	}
}

// askDetails requests detailed metrics, and returns the status, the text, and the last question
// that the node was asked.
func askDetails(t *testing.T, d Detail, query string) (status int, text string, asked Question) {
	t.Helper()
	m := New(Options{Detail: func(q Question) Detail { asked = q; return Detail{slices.Clone(d.Topics), slices.Clone(d.Followers)} }})
	w := httptest.NewRecorder()
	m.Detailed().ServeHTTP(w, httptest.NewRequest("GET", "/metrics/detailed?"+query, nil))
	return w.Code, w.Body.String(), asked
}

// samples returns the lines of a scrape that are no comments.
func samples(text string) (all []string) {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			all = append(all, strings.TrimSpace(line))
		}
	}
	return all
}

func TestDetailsOfEachFamily(t *testing.T) {
	d := Detail{
		Topics: []stats.Topic{busyTopic("orders"), busyTopic("orders2#ephemeral")},
		Followers: []operate.Follower{
			{Topic: "orders", Partition: 1, Copy: api.Copy{Node: "n2", Connected: true, Acked: 20, Lag: 2, LagBytes: 300, BehindFor: api.Duration(1500 * time.Millisecond), BehindForMS: 1500}},
			{Topic: "other", Copy: api.Copy{Node: "n2"}},
			{Topic: "orders", Partition: 1, Copy: api.Copy{Node: "n3", BehindFor: -1, BehindForMS: -1}},
		},
	}
	for family, want := range map[string][]string{
		"partition": {
			`brokerd_detailed_partition_bytes{partition="1",topic="orders"} 4096`,
			`brokerd_detailed_partition_committed_end{partition="1",topic="orders"} 20`,
			`brokerd_detailed_partition_leader_epoch{partition="1",topic="orders"} 3`,
			`brokerd_detailed_partition_log_end{partition="1",topic="orders"} 22`,
			`brokerd_detailed_partition_log_start{partition="1",topic="orders"} 5`,
			`brokerd_detailed_partition_uncommitted_messages{partition="1",topic="orders"} 2`,
		},
		"channel_partition": {
			`brokerd_detailed_channel_partition_blocked{channel="c",partition="1",topic="orders"} 1`,
			`brokerd_detailed_channel_partition_confirmed{channel="c",partition="1",topic="orders"} 12`,
			`brokerd_detailed_channel_partition_key_blocked_messages{channel="c",partition="1",topic="orders"} 0`,
			`brokerd_detailed_channel_partition_lag_messages{channel="c",partition="1",topic="orders"} 8`,
			`brokerd_detailed_channel_partition_spinning_messages{channel="c",partition="1",topic="orders"} 0`,
		},
		"replica": {
			`brokerd_detailed_replica_acked{partition="1",peer="n2",topic="orders"} 20`,
			`brokerd_detailed_replica_acked{partition="1",peer="n3",topic="orders"} 0`,
			`brokerd_detailed_replica_connected{partition="1",peer="n2",topic="orders"} 1`,
			`brokerd_detailed_replica_connected{partition="1",peer="n3",topic="orders"} 0`,
			`brokerd_detailed_replica_lag_bytes{partition="1",peer="n2",topic="orders"} 300`,
			`brokerd_detailed_replica_lag_bytes{partition="1",peer="n3",topic="orders"} 0`,
			`brokerd_detailed_replica_lag_messages{partition="1",peer="n2",topic="orders"} 2`,
			`brokerd_detailed_replica_lag_messages{partition="1",peer="n3",topic="orders"} 0`,
			`brokerd_detailed_replica_lag_seconds{partition="1",peer="n2",topic="orders"} 1.5`,
		},
		"client": {
			"brokerd_detailed_client_delivered_total{channel=\"c\",client=\"10.0.0.1:5000\",client_id=\"worker\uFFFD\\\"1\\\"\",topic=\"orders\"} 0",
			"brokerd_detailed_client_finished_total{channel=\"c\",client=\"10.0.0.1:5000\",client_id=\"worker\uFFFD\\\"1\\\"\",topic=\"orders\"} 7",
			"brokerd_detailed_client_in_flight{channel=\"c\",client=\"10.0.0.1:5000\",client_id=\"worker\uFFFD\\\"1\\\"\",topic=\"orders\"} 2",
			"brokerd_detailed_client_ready_messages{channel=\"c\",client=\"10.0.0.1:5000\",client_id=\"worker\uFFFD\\\"1\\\"\",topic=\"orders\"} 4",
			"brokerd_detailed_client_requeued_total{channel=\"c\",client=\"10.0.0.1:5000\",client_id=\"worker\uFFFD\\\"1\\\"\",topic=\"orders\"} 0",
			"brokerd_detailed_client_timed_out_total{channel=\"c\",client=\"10.0.0.1:5000\",client_id=\"worker\uFFFD\\\"1\\\"\",topic=\"orders\"} 0",
		},
	} {
		status, text, asked := askDetails(t, d, "topic=orders&family="+family)
		if diff := cmp.Diff(want, samples(text)); diff != "" || status != http.StatusOK {
			t.Errorf("%s: status %d (-want +got):\n%s", family, status, diff)
		}
		if asked.Clients != (family == "client") || asked.Followers != (family == "replica") {
			t.Errorf("%s: asked for clients %v, followers %v", family, asked.Clients, asked.Followers)
		}
	}
	_, text, _ := askDetails(t, d, "family=topic,channel&family=topic")
	for _, want := range []string{
		`brokerd_detailed_publish_messages_total{topic="orders"} 10`,
		`brokerd_detailed_publish_messages_total{topic="orders2#ephemeral"} 10`,
		`brokerd_detailed_channel_lag_messages{channel="c",topic="orders2#ephemeral"} 8`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, "quota") {
		t.Error("topics without max-bytes have a quota")
	}
}

// TestDetailsHaveNamesOfTheirOwn: a Prometheus that stores a scrape and the details counts nothing
// twice.
func TestDetailsHaveNamesOfTheirOwn(t *testing.T) {
	scraped := scrape(t, full(busyTopic("orders")))
	_, text, _ := askDetails(t, Detail{Topics: []stats.Topic{busyTopic("orders")}}, "family=topic,channel,partition,channel_partition,client")
	if len(samples(text)) < 40 {
		t.Fatalf("only %d samples", len(samples(text)))
	}
	for _, line := range samples(text) {
		name, _, _ := strings.Cut(line, "{")
		if strings.Contains(scraped, "\n"+name+"{") || !strings.HasPrefix(name, "brokerd_detailed_") {
			t.Errorf("%s is in a scrape, too", name)
		}
	}
}

func TestDetailsThatSelectNothing(t *testing.T) {
	for query, want := range map[string]string{
		"":                             "parameter family is missing: one or more of channel, channel_partition, client, partition, replica, topic, separated by commas",
		"family=":                      "parameter family is missing",
		"family=topic,nonsense":        `family: "nonsense" is not one of channel, `,
		"family=topic&topic=%5B":       "topic: error parsing regexp",
		"family=topic&topic=%29%7C%28": "topic: error parsing regexp",
		"family=topic&topic=%5CQa":     "topic: error parsing regexp",
		"family=topic&topic=" + strings.Repeat("x", maxPattern+1): "topic: regular expression of 1001 bytes, must have at most 1000",
	} {
		if status, text, _ := askDetails(t, Detail{}, query); status != http.StatusBadRequest || !strings.HasPrefix(text, want) {
			t.Errorf("%q: got %d %s", query, status, text)
		}
	}
	if status, text, _ := askDetails(t, Detail{Topics: []stats.Topic{busyTopic("a")}}, "family=topic&topic=b"); status != http.StatusOK || len(samples(text)) != 0 {
		t.Errorf("got %d %s", status, text)
	}
}

func TestDetailsAreBounded(t *testing.T) {
	var d Detail
	limit := maxDetails / len(topicMetrics)
	for i := range limit + 1 {
		d.Topics = append(d.Topics, stats.Topic{Name: fmt.Sprintf("t%05d", i), QuotaUsed: -1})
	}
	few := Detail{Topics: d.Topics[:limit:limit]}
	want := fmt.Sprintf("10001 objects with %d series match, over 100000 series: select fewer families, or topics with the parameter topic", (limit+1)*len(topicMetrics))
	if status, text, _ := askDetails(t, d, "family=topic"); status != http.StatusBadRequest || !strings.HasPrefix(text, want) {
		t.Errorf("got %d %.200s", status, text)
	}
	if status, text, _ := askDetails(t, few, "family=topic"); status != http.StatusOK {
		t.Errorf("got %d %.200s", status, text)
	}
	d.Topics = append(d.Topics, stats.Topic{Name: "t000191", QuotaUsed: -1})
	if _, text, _ := askDetails(t, d, "family=topic&topic="+url.QueryEscape("t0001.")); len(samples(text)) != 10*9 {
		t.Errorf("got %d samples", len(samples(text)))
	}
}

// TestEqualLabelsAreNoError: two connections may have the same address for a moment, at different
// nodes.
func TestEqualLabelsAreNoError(t *testing.T) {
	x := busyTopic("orders")
	x.Channels[0].Clients = append(x.Channels[0].Clients, x.Channels[0].Clients[0])
	if status, text, _ := askDetails(t, Detail{Topics: []stats.Topic{x}}, "family=client"); status != http.StatusOK || len(samples(text)) != 6 {
		t.Errorf("got %d %s", status, text)
	}
}

func TestFewDetailsAtATime(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	m := New(Options{Detail: func(Question) Detail { asked <- struct{}{}; <-release; return Detail{} }})
	request := func() int {
		w := httptest.NewRecorder()
		m.Detailed().ServeHTTP(w, httptest.NewRequest("GET", "/metrics/detailed?family=topic", nil))
		return w.Code
	}
	done := make(chan int)
	for range maxDetailing {
		go func() { done <- request() }()
		<-asked
	}
	if status := request(); status != http.StatusServiceUnavailable {
		t.Errorf("got %d", status)
	}
	close(release)
	for range maxDetailing {
		if status := <-done; status != http.StatusOK {
			t.Errorf("got %d", status)
		}
	}
}
