package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/logtest"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

// clock is the time at which the tests run.
func clock() time.Time { return time.Date(2026, 11, 21, 9, 14, 2, 0, time.UTC) }

// fakeBroker serves /v1 with answers that the test sets, by "METHOD path".
type fakeBroker struct {
	*httptest.Server

	mu      sync.Mutex // guards the fields below
	answers map[string]any
	asked   []string // "METHOD path?query body" of requests that change something
}

func newFakeBroker(t *testing.T) *fakeBroker {
	t.Helper()
	b := &fakeBroker{answers: ordinaryAnswers()}
	maps.Copy(b.answers, operatorAnswers())
	maps.Copy(b.answers, deferredAnswers())
	b.Server = httptest.NewServer(http.HandlerFunc(b.serve))
	t.Cleanup(b.Close)
	return b
}

func (b *fakeBroker) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.Method != http.MethodGet {
		b.asked = append(b.asked, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
	}
	answer, ok := b.answers[r.Method+" "+r.URL.Path]
	if !ok {
		answer = api.Error{Code: failure.NotFound, Message: "not found", Fate: "refused"}
		if r.URL.Path == "/v1/topics/order" {
			answer = api.Error{Code: failure.NotFound, Message: `topic "order" not found`, Hint: `did you mean "orders"?`, Fate: "refused"}
		}
	}
	if made, ok := answer.(func(*http.Request, []byte) any); ok {
		answer = made(r, body)
	}
	switch a := answer.(type) {
	case nil:
		w.WriteHeader(http.StatusNoContent)
	case api.Error:
		w.WriteHeader(a.Code.Status())
		_ = json.NewEncoder(w).Encode(api.ErrorAnswer{Error: &a})
	default:
		_ = json.NewEncoder(w).Encode(a)
	}
}

// set changes one answer.
func (b *fakeBroker) set(request string, answer any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers[request] = answer
}

// changes returns the requests that change something.
func (b *fakeBroker) changes() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.asked...)
}

// result is the outcome of a command line.
type result struct {
	exit           int
	stdout, stderr string
}

// brokerctl runs a command line against the fake.
func (b *fakeBroker) brokerctl(t *testing.T, args ...string) result {
	t.Helper()
	return runWith(t, environment{getenv: addressOnly(b.URL)}, args...)
}

// addressOnly is an environment with only the address of a node.
func addressOnly(address string) func(string) string {
	return func(name string) string {
		if name == addressVariable {
			return address
		}
		return ""
	}
}

// runWith runs a command line in an environment whose streams may be left out.
func runWith(t *testing.T, env environment, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	env.stdout, env.stderr, env.now = &stdout, &stderr, clock
	env.pause = func(context.Context, time.Duration) {}
	if env.stdin == nil {
		env.stdin = strings.NewReader("")
	}
	if env.getenv == nil {
		env.getenv = func(string) string { return "" }
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	exit := run(ctx, args, env)
	if words := logtest.Doubled(stderr.String()); words != "" {
		t.Errorf("%q says %q twice: %s", args, words, &stderr)
	}
	return result{exit, stdout.String(), stderr.String()}
}

// ordinaryAnswers are those of a cluster of three nodes. Commands that learn of the nodes connect to them: their ports are
// on this machine, and closed.
func ordinaryAnswers() map[string]any {
	orders, clicks := ordersTopic(), clicksTopic()
	invoice := invoiceChannel()
	cluster := api.Cluster{ClusterID: "orders-prod", Controller: "n2", Self: "n1", Level: 1, Attainable: 1, Nodes: []api.Node{
		{
			ID: "n1", State: api.NodeUp, Voter: true, TCPAddress: "127.0.0.11:450", HTTPAddress: "127.0.0.11:451",
			ClusterAddress: "127.0.0.11:452", Zone: "a", Version: "0.1.0", Levels: api.Levels{Max: 1}, Incarnation: 3,
		},
		{
			ID: "n2", State: api.NodeUp, Voter: true, TCPAddress: "127.0.0.12:450", HTTPAddress: "127.0.0.12:451",
			ClusterAddress: "127.0.0.12:452", Version: "0.1.0", Levels: api.Levels{Max: 1}, Incarnation: 1,
		},
		{
			ID: "n3", State: api.NodeDown, TCPAddress: "127.0.0.13:450", HTTPAddress: "127.0.0.13:451",
			ClusterAddress: "127.0.0.13:452", Version: "0.1.0", Levels: api.Levels{Max: 1}, Incarnation: 7,
		},
	}}
	var partitions []api.Partition
	for _, t := range []api.Topic{clicks, orders} {
		for _, q := range t.Partitions {
			q.Topic = t.Name
			partitions = append(partitions, q)
		}
	}
	answers := accessAnswers()
	maps.Copy(answers, map[string]any{
		"GET /v1/topics":           api.TopicList{Topics: []api.Topic{clicks, orders}},
		"POST /v1/topics":          clicks,
		"GET /v1/topics/orders":    orders,
		"PATCH /v1/topics/orders":  orders,
		"DELETE /v1/topics/orders": nil,
		"GET /v1/deleted": api.DeletedTopics{Deleted: []api.DeletedTopic{{
			Name: "orders", Incarnation: 41, DeletedAt: clock(), KeptUntil: clock().Add(24 * time.Hour), Partitions: 2, Replicas: 3,
			Channels: []string{"invoice", "mail"}, Nodes: []string{"n1", "n2", "n3"},
		}}},
		"POST /v1/deleted/orders/restore":          orders,
		"POST /v1/topics/orders/pause":             nil,
		"POST /v1/topics/orders/resume":            nil,
		"POST /v1/topics/orders/empty":             nil,
		"POST /v1/topics/orders/partitions":        orders,
		"GET /v1/topics/orders/messages":           peekOrders,
		"POST /v1/topics/orders/messages":          publishOrders,
		"GET /v1/topics/orders/verify":             ordersVerification(),
		"GET /v1/topics/orders/channels":           api.ChannelList{Topic: "orders", Channels: orders.Channels},
		"POST /v1/topics/orders/channels":          invoice,
		"PATCH /v1/topics/orders/channels/invoice": invoice,
		"GET /v1/dead-letters": api.DeadLetterList{Channels: []api.DeadLetters{{
			Topic: "orders", Channel: "invoice", DeadLetterTopic: "orders.invoice.dlq", MaxAttempts: 5, OnExhausted: api.OnExhaustedDeadLetter,
			Waiting: 1207, Exhausted: 1, DeadLetteredTotal: 7, DroppedTotal: 2,
		}}},
		"GET /v1/topics/orders/channels/invoice/dead-letters": api.DeadLetterMessages{Messages: []api.DeadLetter{{
			Origin: api.DeadLetterOrigin{
				Topic: "orders", Partition: 1, Offset: 17, ID: "18ef8ddbaa4d0233", Channel: "invoice", FirstTimestampNS: clock().UnixNano(),
				Attempts: 5, LastConsumer: "worker-7 (10.0.1.9:51234)", Reason: "max-attempts",
			},
			Peeked: api.Peeked{ID: "0a5cf09404cdaedc", Timestamp: clock(), State: api.PeekReady, Headers: json.RawMessage(`{}`), Body: []byte("poison"), Text: new("poison")},
		}}},
		"POST /v1/topics/orders/channels/invoice/dead-letters/redrive": redriveOrders(),
		"POST /v1/topics/orders/channels/invoice/dead-letters/purge":   api.DeadLetterResult{Topic: "orders", Channel: "invoice", Count: 12, Skipped: 1, DryRun: true},
		"GET /v1/topics/orders/channels/invoice":                       invoice,
		"GET /v1/topics/orders/channels/invoice/explain":               invoiceExplanation(),
		"POST /v1/topics/orders/channels/invoice":                      invoice,
		"DELETE /v1/topics/orders/channels/invoice":                    api.SavedPosition{Verb: "delete"},
		"POST /v1/topics/orders/channels/invoice/pause":                nil,
		"POST /v1/topics/orders/channels/invoice/resume":               nil,
		"POST /v1/topics/orders/channels/invoice/empty":                nil,
		"POST /v1/topics/orders/channels/invoice/seek":                 invoice,
		"GET /v1/topics/orders/channels/invoice/messages":              peekOrders,
		"GET /v1/partitions":                                           api.PartitionList{Partitions: partitions},
		"GET /v1/cluster":                                              cluster,
		"GET /v1/cluster/health":                                       api.Health{Healthy: true, Reasons: []api.Reason{}},
		"GET /v1/nodes":                                                api.NodeList{Nodes: cluster.Nodes, Unregistered: []api.UnregisteredNode{{ID: "n9", ClusterAddress: "n9:4152", Silent: true, Reason: "no answer at n9:4152"}}},
		"GET /v1/nodes/n2":                                             leavingNode(),
		"POST /v1/nodes/n2/drain":                                      leavingNode(),
		"POST /v1/nodes/n2/undrain":                                    leavingNode(),
		"POST /v1/nodes/n2/decommission":                               leavingNode(),
		"DELETE /v1/nodes/n2":                                          nil,
		"GET /v1/topics/orders/partitions/0":                           movingPartition(),
		"POST /v1/topics/orders/partitions/0/transfer":                 movingPartition(),
		"POST /v1/topics/orders/partitions/0/elect":                    movingPartition(),
		"POST /v1/topics/orders/partitions/0/move":                     movingPartition(),
		"DELETE /v1/topics/orders/partitions/0/move":                   movingPartition(),
		"GET /v1/topics/orders/partitions/0/repair":                    damagedPartition(),
		"POST /v1/topics/orders/partitions/0/repair":                   damagedPartition(),
		"GET /v1/settings":                                             differentSettings(),
		"POST /v1/nodes/n2/log-level":                                  api.LogLevel{Node: "n2", Level: "debug", Configured: "info"},
		"GET /v1/cluster/balance":                                      unbalanced(),
		"POST /v1/cluster/balance":                                     unbalanced(),
		"GET /v1/cluster/raft":                                         agreement(),
		"POST /v1/cluster/raft/transfer":                               agreement(),
	})
	return answers
}

// leavingNode is being decommissioned.
func leavingNode() api.NodeDetail {
	return api.NodeDetail{
		Node: api.Node{
			ID: "n2", State: api.NodeDraining, Voter: true, TCPAddress: "127.0.0.12:450", HTTPAddress: "127.0.0.12:451",
			ClusterAddress: "127.0.0.12:452", Version: "0.1.0", Levels: api.Levels{Max: 1}, Incarnation: 1, Intent: api.IntentDecommission, Leaders: 1, Replicas: 2,
			Hostname: "broker-2",
		},
		Partitions: []api.NodePartition{
			{Topic: "orders", Partition: 0, InSync: true, Removing: true},
			{Topic: "orders", Partition: 1, Leader: true, InSync: true},
		},
		Left: api.Progress{
			Leaders: 1, Replicas: 2, Moving: 1, Bytes: 1_288_490_188, BytesPerSecond: 50 << 20, TimeLeft: api.Duration(25 * time.Second), TimeLeftMS: 25_000,
		},
		Troubles: []api.Trouble{{Kind: "no_room", Topic: "orders", Partition: 1, Nodes: []string{"n2"}, What: "no eligible node for the replica"}}, IfStopped: []api.Trouble{},
	}
}

// movingPartition moves from n2 to n4.
func movingPartition() api.PartitionDetail {
	return api.PartitionDetail{
		Partition: api.Partition{
			Topic: "orders", Partition: 0, Leader: "n1", Epoch: 12, Replicas: []string{"n1", "n3", "n4", "n2"}, ISR: []string{"n1", "n2"},
			LogStart: 100_022, CommittedEnd: 4_881_203, LogEnd: 4_881_203, Bytes: 3_328_599_654, Adding: []string{"n4"}, Removing: []string{"n2"},
		},
		Copies: []api.Copy{
			{Node: "n1", InSync: true, Answered: true, LogStart: 100_022, CommittedEnd: 4_881_203, LogEnd: 4_881_203, Bytes: 3_328_599_654},
			{Node: "n3"},
			{
				Node: "n4", Answered: true, LogStart: 100_022, CommittedEnd: 2_990_211, LogEnd: 2_990_300, Bytes: 2_040_109_465,
				Seen: true, Connected: true, State: "replicate", Acked: 2_990_211, Lag: 1_890_992, LagBytes: 1_288_490_189, BytesPerSecond: 50 << 20, BehindFor: -1, BehindForMS: -1,
			},
			{
				Node: "n2", InSync: true, Answered: true, LogStart: 100_022, CommittedEnd: 4_881_200, LogEnd: 4_881_203, Bytes: 3_328_599_654,
				Seen: true, State: "probe", Acked: 4_881_203, BehindFor: api.Duration(90 * time.Second), BehindForMS: 90_000,
			},
		},
		Left:     api.Progress{Moving: 1, Bytes: 1_288_490_189, BytesPerSecond: 50 << 20, TimeLeft: api.Duration(25 * time.Second), TimeLeftMS: 25_000},
		Troubles: []api.Trouble{},
	}
}

func damagedPartition() api.Repair {
	return api.Repair{
		Topic: "orders", Partition: 0,
		Copies: []api.RepairCopy{
			{
				Node: "n1", Leader: true, InSync: true, Open: true, LogStart: 100_022, CommittedEnd: 4_881_203, LogEnd: 4_881_203, Damaged: true,
				Damage: []api.DamageRange{{
					File: "/var/lib/brokerd/topics/orders.17/0/00000000000000100022.log", Position: 8192, From: 100_100, Next: 100_104,
				}},
			},
			{Node: "n2"},
		},
		SetAside: []api.SetAsideCopy{
			{
				Node: "n2", Name: "orders.17.0.4", Path: "/var/lib/brokerd/quarantine/orders.17.0.4", LogStart: 100_022,
				CommittedEnd: 4_881_210, LogEnd: 4_881_215, Damage: []api.DamageRange{}, Waits: true,
				Why: "it extends beyond the replica on the node",
			},
			{
				Node: "n4", Name: "orders.17.0.2", Path: "/var/lib/brokerd/quarantine/orders.17.0.2", Damage: []api.DamageRange{}, Waits: true,
				Why: "its log is unreadable", Unreadable: "checkpoint: checksum mismatch",
			},
		},
		MissingNodes: []string{"n3"},
	}
}

func unbalanced() api.Balance {
	return api.Balance{
		Nodes: []api.NodeLoad{
			{ID: "n1", State: api.NodeUp, Zone: "a", Leaders: 12, Preferred: 8, Replicas: 24},
			{ID: "n2", State: api.NodeUp, Zone: "b", Leaders: 4, Preferred: 8, Replicas: 20},
			{ID: "n4", State: api.NodeDown, Preferred: 0, Replicas: 4},
		},
		Leaders: []api.LeaderMove{{Topic: "orders", Partition: 1, From: "n1", To: "n2"}},
		Moves:   []api.Move{{Topic: "orders", Partition: 0, From: []string{"n1", "n3"}, To: []string{"n2", "n3"}}},
	}
}

func agreement() api.Raft {
	return api.Raft{Leader: "n2", Term: 7, Voters: 3, Tolerance: 1, Members: []api.RaftMember{
		{
			ID: "n1", Voter: true, Address: "127.0.0.11:452", Answered: true, Term: 7, LastIndex: 12_034, CommitIndex: 12_033, AppliedIndex: 12_033,
			LastContact: api.Duration(12 * time.Millisecond), LastContactMS: 12, SnapshotIndex: 8192, StoreBytes: 1 << 20,
		},
		{
			ID: "n2", Voter: true, Address: "127.0.0.12:452", Answered: true, Leader: true, Term: 7, LastIndex: 12_034, CommitIndex: 12_034,
			AppliedIndex: 12_034, SnapshotIndex: 8192, StoreBytes: 1 << 20,
		},
		{ID: "n3", Voter: true, Address: "127.0.0.13:452"},
		{ID: "n4", Address: "127.0.0.14:452", Answered: true, Term: 7, LastContact: -1, LastContactMS: -1},
	}}
}

func ordersTopic() api.Topic {
	return api.Topic{
		Name: "orders", FirstID: "2b839aa76e4d64b7",
		Config: api.Config{
			Partitions: 2, Replicas: 3, MinISR: 2, Sync: api.SyncAlways,
			Retention: api.Duration(72 * time.Hour), RetentionMS: 259_200_000, RetentionBytes: 50 << 30,
			RetentionTrash: api.Duration(24 * time.Hour), RetentionTrashMS: 86_400_000, AutoRetentionTrash: true,
		},
		MessagesTotal: 9_761_193, BytesTotal: 1_249_432_704, Bytes: 13_314_398_617,
		Partitions: []api.Partition{
			{
				Partition: 0, Leader: "n1", Epoch: 12, Replicas: []string{"n1", "n2", "n3"}, ISR: []string{"n1", "n2"},
				LogStart: 100_022, CommittedEnd: 4_881_203, LogEnd: 4_881_203, Bytes: 3_328_599_654,
			},
			{
				Partition: 1, Leader: "n2", Epoch: 9, Replicas: []string{"n3", "n2", "n1"}, ISR: []string{"n2", "n3", "n1"},
				LogStart: 98_411, CommittedEnd: 4_879_990, LogEnd: 4_879_991, Bytes: 3_328_599_654,
			},
		},
		Channels: []api.ChannelSummary{
			{Name: "bill", Depth: 212, InFlight: 40, Deferred: 3, Consumers: 8, Order: "none", OldestAge: api.Duration(1234 * time.Millisecond), OldestAgeMS: 1234},
			{Name: "invoice", Depth: 48_112, Paused: true, Ordered: true, Order: "strict", OldestAge: api.Duration(3*time.Hour + 12*time.Minute), OldestAgeMS: 11_520_000},
		},
	}
}

func clicksTopic() api.Topic {
	return api.Topic{
		Name: "clicks#ephemeral", FirstID: "c75112426cd2ce9f",
		Config: api.Config{Partitions: 1, Replicas: 1, MinISR: 1, Sync: 1000, SyncInterval: api.Duration(200 * time.Millisecond), SyncIntervalMS: 200, Ext: true},
		Paused: true, Ephemeral: true, Depth: 7, MessagesTotal: 7,
		Partitions: []api.Partition{{Replicas: []string{"n1"}, ISR: []string{}, CommittedEnd: 7, LogEnd: 7, Bytes: 812}},
		Channels:   []api.ChannelSummary{},
	}
}

func invoiceChannel() api.Channel {
	return api.Channel{
		Topic:         "orders",
		ChannelCounts: api.ChannelCounts{Depth: 48_112, InFlight: 1, MessagesTotal: 9_761_193, DeliveredTotal: 9_800_000, FinishedTotal: 9_713_081, RequeuedTotal: 17, TimedOutTotal: 212, Exhausted: 1, BackingOff: 3, BackedOffTotal: 41, DeadLetteredTotal: 7, DroppedTotal: 2},
		Name:          "invoice",
		Paused:        true,
		Ordered:       true,
		Order:         "strict",
		OldestAge:     api.Duration(3*time.Hour + 12*time.Minute),
		OldestAgeMS:   11_520_000,
		Policy: api.Policy{
			MaxAttempts: 5, OnExhausted: api.OnExhaustedDeadLetter, DeadLetterTopic: "orders.invoice.dlq", Backoff: "1s..10m", Rate: 100,
			Own: []string{"max_attempts", "backoff", "rate"},
		},
		Consumers: []api.Consumer{{
			Address: "10.0.1.9:51234", ClientID: "worker-7", Hostname: "worker-7.local", UserAgent: "go-nsq/1.1.0",
			Ready: 1, InFlight: 1, FinishedTotal: 12, ConnectedAt: clock().Add(-time.Minute),
		}},
		Partitions: []api.ChannelPartition{
			{Partition: 0, Leader: "n1", Confirmed: 4_833_120, Lag: 48_083},
			{Partition: 1, Leader: "n2", Confirmed: 4_879_961, Lag: 29, Spinning: []api.SpinningMessage{{Seq: 4_879_963, PerSecond: 18_204.6}}},
		},
	}
}

func ordersVerification() api.Verification {
	return api.Verification{Topic: "orders", Partitions: []api.PartitionDigest{
		{Partition: 0, CommittedEnd: 4_881_203, Digests: map[string]string{"n2": "8f3c01aa", "n1": "8f3c01aa"}, Identical: true},
		{Partition: 1, CommittedEnd: 4_879_990, Digests: map[string]string{"n1": "00c0ffee", "n2": "00c0ffee"}, Identical: true},
	}}
}

// peekOrders answers a peek of a log in which message i of a partition was published i milliseconds
// after midnight.
func peekOrders(r *http.Request, _ []byte) any {
	partition, _ := strconv.Atoi(r.FormValue("partition"))
	from, err := strconv.ParseUint(r.FormValue("from"), 10, 64)
	if err != nil {
		from = 100_022
	}
	n, _ := strconv.Atoi(r.FormValue("n"))
	bodies := []string{`{"id":1}`, "two\nlines", "\xff\x00"}
	var list []api.Peeked
	for i := range min(n, len(bodies)) {
		at := from + uint64(i)
		if at >= 4_879_990 && partition == 1 || at >= 4_881_203 {
			break // the committed end
		}
		m := api.Peeked{
			Partition: partition, Seq: at, ID: strings.Repeat("0", 15) + strconv.Itoa(i), Timestamp: midnight().Add(time.Duration(at) * time.Millisecond),
			Attempts: uint16(i), State: api.PeekReady, Headers: json.RawMessage("{}"), Body: []byte(bodies[i]),
		}
		if i < 2 {
			m.Text = &bodies[i]
		}
		list = append(list, m)
	}
	return api.PeekedList{Messages: list}
}

func midnight() time.Time { return time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC) }

// publishOrders acknowledges messages without storing them.
func publishOrders(_ *http.Request, body []byte) any {
	var req api.Publish
	if err := json.Unmarshal(body, &req); err != nil {
		return api.Published{}
	}
	p := api.Published{Topic: "orders", FirstSeq: 120, Count: len(req.Messages), IDs: []string{}}
	for i := range req.Messages {
		p.IDs = append(p.IDs, "2b839aa76e4d650"+strconv.Itoa(i%10))
	}
	if req.Partition != nil {
		p.Partition = *req.Partition
	}
	return p
}

func invoiceExplanation() api.Explanation {
	return api.Explanation{
		Topic: "orders", Channel: "invoice", Ready: 48112, Deferred: 3, OldestAgeMS: 11_520_000, Causes: []api.Cause{
			{Code: api.CausePaused, What: "the channel is paused; 48112 messages wait", Do: "brokerctl channel resume orders/invoice", Count: 48112},
			{Code: api.CauseNoConsumer, What: "no consumer is subscribed", Do: "start a consumer of the channel", Count: 48115},
		},
		MissingNodes: []string{"n3"},
	}
}

// redriveOrders answers requests to redrive 1207 dead letters.
func redriveOrders() func(*http.Request, []byte) any {
	left := 1207
	return func(_ *http.Request, body []byte) any {
		var req api.DeadLetterAction
		if err := json.Unmarshal(body, &req); err != nil {
			return api.Error{Code: failure.Invalid, Message: err.Error()}
		}
		n := min(req.Max, left)
		left -= n
		return api.DeadLetterResult{Topic: "orders", Channel: "invoice", Count: n, More: left > 0}
	}
}

// differentSettings are the settings of two nodes.
func differentSettings() api.ClusterSettings {
	of := func(node, reserve, by string) api.NodeSettings {
		return api.NodeSettings{Node: node, LogLevel: api.LogLevel{Node: node, Level: "info", Configured: "info"}, Settings: []api.Setting{
			{Name: "zone", Value: "", Source: "environment"}, {Name: "disk-reserve", Value: reserve, Source: by}, {Name: "sync", Value: "always", Source: "default"},
		}}
	}
	return api.ClusterSettings{Nodes: []api.NodeSettings{of("n1", "1GiB", "default"), of("n2", "2GiB", "file")}}
}
