package metrics

import (
	"errors"
	"fmt"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/broker"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/diskspace"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/nsq"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/otlp"
	"github.com/brokerd/brokerd/pkg/peer"
	"github.com/brokerd/brokerd/pkg/scrubber"
	"github.com/brokerd/brokerd/pkg/server"
	"github.com/brokerd/brokerd/pkg/stats"
	"github.com/brokerd/brokerd/pkg/trace"
)

// full returns metrics with every source.
func full(topics ...stats.Topic) *Metrics {
	return New(Options{
		Version: "1.2.3", Revision: "abc", Node: "n1", Zone: "z1", Started: time.Now().Add(-time.Hour), MaxObjects: 6,
		Read: func() Values {
			return Values{
				Topics:    topics,
				Ready:     true,
				Placement: operate.Placement{Partitions: 5, Offline: 1, UnderReplicated: 2, UnderMinISR: 1, NonPreferredLeader: 1, Moving: 1, Hosted: 4, Led: 3},
				Server: server.Stats{
					Open: 3, OpenConsumers: 2, Connections: 9, BytesIn: 100, BytesOut: 200,
					Ended: [server.EndingCount]uint64{server.EndTimeout: 1}, Commands: [nsq.VerbCount]uint64{nsq.Pub: 7},
					Errors: [failure.WireCount]uint64{failure.BadTopic: 1},
				},
				Unauthorized: 3,
				Logs:         host.LogStats{Segments: 3, Bytes: 4096, Unsynced: 2, Recovery: 1500 * time.Millisecond, Damaged: 1, Unreadable: 1, TornBytes: 17, Appends: 5, Records: 50, AppendedBytes: 500, Syncs: 4},
				Scrubber:     scrubber.Stats{Bytes: 2048, Oldest: time.Hour},
				TrashTopics:  2, TrashBytes: 77,
				TokenEnds: time.Unix(1795230522, 0),
				Disk:      diskspace.State{Free: 9, Total: 100, Reserve: 5},
				Tolerance: 0,
				Raft: raftstore.Stats{
					IsLeader: true, Term: 2, CommitIndex: 30, AppliedIndex: 29, SnapshotIndex: 20, Voters: []meta.NodeID{"n1"}, LastContact: -1, StoreBytes: 8192, StoreFree: 4096, Elections: 4,
					Applies: raftstore.Timing{Count: 5, Total: time.Second}, Writes: raftstore.Timing{Count: 6, Total: 2 * time.Second},
				},
				Nodes: map[string]int{"up": 2, "draining": 1},
				Followers: []operate.Follower{
					{Topic: "a", Copy: api.Copy{Node: "n2", Lag: 70, LagBytes: 7000, BehindFor: api.Duration(90 * time.Second)}},
					{Topic: "b", Copy: api.Copy{Node: "n2"}},
					{Topic: "c", Copy: api.Copy{Node: "n2", BehindFor: -1}},
				},
				Replication: coord.ReplicationStats{Uncommitted: 5, UncommittedLimit: 50, UncommittedFull: 2, CatchUpRate: 1 << 20},
				Memory:      limit.MemoryUsage{Limit: 1000, Used: 7, Uses: [limit.UseCount]int64{limit.Bodies: 4, limit.Ephemeral: 3}, Waiting: 1, Waited: 6, Refused: 5},
				Turns:       9,
				Uncreated:   8,
				Traces:      trace.Stats{Events: 11, Lost: 12, Bytes: 13},
				Spans:       otlp.Stats{Enabled: true, Sent: 21, Rejected: 22, Unsent: 23, Missed: 24, Waiting: 25},
				Stalls:      map[string]int{"replication_stalled": 2},
				Peers: []peer.Stats{
					{Node: "n2", Class: peer.ClassForward, Connected: 1, Sent: 100, Received: 10, Calls: 5, Failed: 2, Connects: 3, RoundTrip: time.Millisecond},
					{Node: "n2", Class: peer.ClassForward, Inbound: true, Connected: 1, Sent: 1, Received: 2, Calls: 9},
					{Class: peer.ClassPing, Sent: 7},
				},
				Forwarding:   broker.ForwardStats{Partitions: 1, Bytes: 2, Served: 3, Relays: 4},
				Certificates: []Certificate{{Usage: "client", NotAfter: time.Unix(1795230522, 0), Reloaded: 2, Failed: 1}},
			}
		},
	})
}

func topicOf(name string, channels ...string) stats.Topic {
	t := stats.Topic{
		Name: name, Ephemeral: strings.HasSuffix(name, "#ephemeral"), Depth: 1, Messages: 10, Bytes: 100, LogBytes: 1000, QuotaUsed: 0.25,
		Partitions: []stats.Partition{{LogStart: 3, LogEnd: 10}},
	}
	for _, c := range channels {
		t.Channels = append(t.Channels, stats.Channel{
			Name: c,
			ChannelCounts: api.ChannelCounts{
				Depth: 1, InFlight: 2, Deferred: 3, DeliveredTotal: 6, FinishedTotal: 7, RequeuedTotal: 8, TimedOutTotal: 9,
				Exhausted: 2, BackingOff: 3, RateLimited: true, BackedOffTotal: 5, DeadLetteredTotal: 6, DroppedTotal: 7,
			},
			Ephemeral:  strings.HasSuffix(c, "#ephemeral"),
			Consumers:  4,
			Ready:      40,
			OldestAge:  5 * time.Second,
			Throttled:  1500 * time.Millisecond,
			Partitions: []api.ChannelPartition{{Lag: 10, Blocked: new(uint64), Spinning: []api.SpinningMessage{{Seq: 1, PerSecond: 200}}}, {Lag: 20}},
		})
	}
	return t
}

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("scrape: %d %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func observeAll(h *Histograms) {
	h.ObservePublish(time.Millisecond, nil)
	h.ObservePublish(time.Millisecond, failure.QueueFull)
	h.ObserveBatch(16)
	h.ObserveFsync(time.Millisecond)
	h.ObserveRaftCommit(time.Millisecond)
	h.ObserveDelivery(time.Millisecond)
	h.ObserveAppend(time.Millisecond)
	h.ObserveReplication(time.Millisecond)
	h.ObserveAct("POST /topic/create", 200)
	h.ObserveFinish(time.Millisecond, 3)
	h.ObserveHTTP("/pub", 200, time.Millisecond)
	h.ObserveChange(meta.ElectLeaders{Elections: []meta.Election{{Leader: "n1"}}}, meta.Result{})
}

func TestMetricNamesFollowPrometheusRules(t *testing.T) {
	m := full(topicOf("t", "c"))
	observeAll(m.Histograms())
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var ours []string
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "brokerd_") {
			ours = append(ours, f.GetName())
		} else if !strings.HasPrefix(f.GetName(), "go_") && !strings.HasPrefix(f.GetName(), "process_") {
			t.Errorf("%s has a strange name", f.GetName())
		}
	}
	problems, err := testutil.GatherAndLint(m.registry, ours...)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	if len(ours) < 60 {
		t.Errorf("only %d families", len(ours))
	}
}

func TestEveryValueOfTheSourcesIsExported(t *testing.T) {
	m := full(topicOf("t", "c"))
	text := scrape(t, m)
	for _, want := range []string{
		`brokerd_build_info{go_version="go`,
		`brokerd_node_info{node="n1",zone="z1"} 1`,
		`brokerd_uptime_seconds 36`,
		`brokerd_node_ready 1`,
		`brokerd_node_maintenance 0`,
		`brokerd_publish_messages_total{topic="t"} 10`,
		`brokerd_publish_bytes_total{topic="t"} 100`,
		`brokerd_topic_bytes{topic="t"} 1000`,
		`brokerd_topic_messages{topic="t"} 7`,
		`brokerd_topic_depth{topic="t"} 1`,
		`brokerd_topic_paused{topic="t"} 0`,
		`brokerd_channel_depth{channel="c",topic="t"} 1`,
		`brokerd_channel_in_flight{channel="c",topic="t"} 2`,
		`brokerd_channel_deferred{channel="c",topic="t"} 3`,
		`brokerd_channel_consumers{channel="c",topic="t"} 4`,
		`brokerd_channel_oldest_message_age_seconds{channel="c",topic="t"} 5`,
		`brokerd_channel_delivered_total{channel="c",topic="t"} 6`,
		`brokerd_channel_finished_total{channel="c",topic="t"} 7`,
		`brokerd_channel_requeued_total{channel="c",topic="t"} 8`,
		`brokerd_channel_timed_out_total{channel="c",topic="t"} 9`,
		`brokerd_channel_lag_messages{channel="c",topic="t"} 30`,
		`brokerd_channel_spinning_messages{channel="c",topic="t"} 1`,
		`brokerd_channel_exhausted_messages{channel="c",topic="t"} 2`,
		`brokerd_channel_blocked_partitions{channel="c",topic="t"} 1`,
		`brokerd_channel_backing_off_messages{channel="c",topic="t"} 3`,
		`brokerd_channel_rate_limited{channel="c",topic="t"} 1`,
		`brokerd_channel_backed_off_total{channel="c",topic="t"} 5`,
		`brokerd_channel_dead_lettered_total{channel="c",topic="t"} 6`,
		`brokerd_channel_dropped_total{channel="c",topic="t"} 7`,
		`brokerd_channel_throttled_seconds_total{channel="c",topic="t"} 1.5`,
		`brokerd_channel_ready_messages{channel="c",topic="t"} 40`,
		`brokerd_channel_filtered_total{channel="c",topic="t"} 0`,
		`brokerd_topic_quota_used_ratio{topic="t"} 0.25`,
		`brokerd_trash_topics 2`, `brokerd_trash_bytes 77`,
		`brokerd_token_not_after_timestamp_seconds 1.795230522e+09`,
		`brokerd_raft_store_free_bytes 4096`,
		`brokerd_connections_tls 0`,
		`brokerd_admin_actions_total{action="other",result="failed"} 0`,
		`brokerd_cluster_partitions 5`,
		`brokerd_cluster_partitions_offline 1`,
		`brokerd_node_leaders 3`,
		`brokerd_connections{proto="tcp",role="consumer"} 2`,
		`brokerd_connections_total{proto="tcp"} 9`,
		`brokerd_connection_errors_total{reason="timeout"} 1`,
		`brokerd_client_bytes_total{direction="in"} 100`,
		`brokerd_client_bytes_total{direction="out"} 200`,
		`brokerd_commands_total{command="PUB"} 7`,
		`brokerd_command_errors_total{code="E_BAD_TOPIC"} 1`,
		`brokerd_auth_failures_total{protocol="http"} 3`,
		`brokerd_log_recovery_seconds 1.5`,
		`brokerd_log_unflushed_messages 2`,
		`brokerd_disk_free_bytes 9`,
		`brokerd_disk_watermark_state 1`,
		`brokerd_raft_is_leader 1`,
		`brokerd_raft_last_contact_seconds -1`,
		`brokerd_tls_certificate_not_after_timestamp_seconds{usage="client"} 1.795230522e+09`,
		`brokerd_tls_reload_total{result="ok",usage="client"} 2`,
		`brokerd_tls_reload_total{result="failed",usage="client"} 1`,
		`brokerd_raft_elections_total 4`,
		`brokerd_raft_apply_duration_seconds_sum 1`,
		`brokerd_raft_apply_duration_seconds_count 5`,
		`brokerd_raft_write_duration_seconds_sum 2`,
		`brokerd_raft_write_duration_seconds_count 6`,
		`brokerd_metrics_objects_dropped 0`,
		`brokerd_cluster_nodes{state="draining"} 1`,
		`brokerd_replica_partitions{peer="n2"} 3`,
		`brokerd_replica_partitions_behind{peer="n2"} 1`,
		`brokerd_replica_lag_messages{peer="n2"} 70`,
		`brokerd_replica_lag_bytes{peer="n2"} 7000`,
		`brokerd_replica_lag_seconds{peer="n2"} 90`,
		`brokerd_peer_connections{class="forward",direction="in",peer="n2"} 1`,
		`brokerd_peer_connections{class="forward",direction="out",peer="n2"} 1`,
		`brokerd_peer_bytes_total{class="forward",direction="in",peer="n2"} 12`,
		`brokerd_peer_bytes_total{class="forward",direction="out",peer="n2"} 101`,
		`brokerd_peer_calls_total{class="forward",peer="n2"} 5`,
		`brokerd_peer_calls_failed_total{class="forward",peer="n2"} 2`,
		`brokerd_peer_connects_total{class="forward",peer="n2"} 3`,
		`brokerd_peer_round_trip_seconds{class="forward",peer="n2"} 0.001`,
		`brokerd_raft_write_stalled_seconds 0`,
		`brokerd_uncommitted_bytes 5`,
		`brokerd_uncommitted_budget_bytes 50`,
		`brokerd_uncommitted_full_total 2`,
		`brokerd_memory_budget_bytes 1000`,
		`brokerd_memory_budget_used_bytes{kind="bodies"} 4`,
		`brokerd_memory_budget_used_bytes{kind="ephemeral"} 3`,
		`brokerd_memory_budget_used_bytes{kind="answers"} 0`,
		`brokerd_memory_budget_waiting 1`,
		`brokerd_memory_budget_waited_total 6`,
		`brokerd_memory_budget_refused_total 5`,
		`brokerd_turns_waiting 9`,
		`brokerd_trace_events_total 11`, `brokerd_trace_lost_total 12`, `brokerd_trace_bytes 13`,
		`brokerd_otlp_spans_sent_total 21`, `brokerd_otlp_spans_waiting 25`, `brokerd_otlp_spans_dropped_total{reason="rejected"} 22`,
		`brokerd_otlp_spans_dropped_total{reason="unsent"} 23`, `brokerd_otlp_spans_dropped_total{reason="missed"} 24`,
		`brokerd_creations_refused_total 8`,
		`brokerd_forward_partitions 1`,
		`brokerd_forward_waiting_bytes 2`,
		`brokerd_relay_subscriptions 3`,
		`brokerd_relay_subscriptions_begun_total 4`,
		"go_goroutines ",
		"process_cpu_seconds_total ",
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("no %s", want)
		}
	}
}

// TestAlertsUseExistingMetrics finds rules about metrics that were renamed.
func TestAlertsUseExistingMetrics(t *testing.T) {
	rules, err := os.ReadFile(filepath.Join("..", "..", "deploy", "prometheus", "brokerd-alerts.yml"))
	if err != nil {
		t.Fatal(err)
	}
	m := full(topicOf("t", "c"))
	observeAll(m.Histograms())
	text := scrape(t, m)
	names := regexp.MustCompile(`\bbrokerd_[a-z_]+\b`).FindAllString(string(rules), -1)
	if len(names) < 20 {
		t.Fatalf("only %d names in the rules", len(names))
	}
	for _, name := range names {
		if !strings.Contains(text, "\n"+name+"{") && !strings.Contains(text, "\n"+name+" ") {
			t.Errorf("no %s", name)
		}
	}
}

func TestActsAreCountedByTheirResult(t *testing.T) {
	m := full()
	for _, status := range []int{200, 204, 404, 409, 500, 503} {
		m.Histograms().ObserveAct("DELETE /v1/topics/{topic}", status)
	}
	text := scrape(t, m)
	for _, result := range []string{"done", "refused", "failed"} {
		if want := `brokerd_admin_actions_total{action="DELETE /v1/topics/{topic}",result="` + result + `"} 2`; !strings.Contains(text, "\n"+want) {
			t.Errorf("no %s", want)
		}
	}
}

// TestEmptySourcesExportCountersButNoRatios: counters of channels are there from the start, so that their first
// increase is seen; a ratio of nothing is not.
func TestEmptySourcesExportCountersButNoRatios(t *testing.T) {
	text := scrape(t, full(stats.Topic{Name: "t", QuotaUsed: -1, Channels: []stats.Channel{{Name: "c"}}}))
	for _, name := range []string{
		"dead_lettered_total", "dropped_total", "backed_off_total", "filtered_total", "filter_errors_total", "throttled_seconds_total",
		"exhausted_messages", "blocked_partitions", "backing_off_messages", "rate_limited",
	} {
		if want := "brokerd_channel_" + name + `{channel="c",topic="t"} 0`; !strings.Contains(text, "\n"+want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(text, "\nbrokerd_topic_quota_used_ratio") {
		t.Error("a topic without a maximum has used a part of it")
	}
	if got := moment(time.Time{}); !math.IsInf(got, 1) {
		t.Errorf("no token ends at %v", got)
	}
}

func TestFinishedMessagesAndAppendsAreRecorded(t *testing.T) {
	m := full()
	observeAll(m.Histograms())
	text := scrape(t, m)
	for _, want := range []string{
		`brokerd_channel_processing_seconds_bucket{le="0.001"} 1`, `brokerd_channel_attempts_bucket{le="2"} 0`,
		`brokerd_channel_attempts_bucket{le="4"} 1`, `brokerd_log_append_duration_seconds_count 1`,
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("no %s", want)
		}
	}
}

// TestHistogramsAreNative: a Prometheus that asks for them gets native histograms, which the text of a scrape does not show.
func TestHistogramsAreNative(t *testing.T) {
	m := full()
	observeAll(m.Histograms())
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	native := 0
	for _, f := range families {
		for _, x := range f.GetMetric() {
			if h := x.GetHistogram(); strings.HasPrefix(f.GetName(), "brokerd_") && h.GetSampleCount() > 0 {
				if native++; len(h.GetPositiveSpan()) == 0 {
					t.Errorf("%s is not native", f.GetName())
				}
			}
		}
	}
	if native < 5 {
		t.Errorf("%d histograms have values", native)
	}
}

func TestProcessMetricsNeedNoSource(t *testing.T) {
	text := scrape(t, New(Options{}))
	if strings.Contains(text, "brokerd_channel_depth") || !strings.Contains(text, "brokerd_build_info") {
		t.Error(text)
	}
}

func TestPublishIsCountedByOutcome(t *testing.T) {
	for _, test := range []struct {
		err    error
		result string
		reason string
	}{
		{nil, "ok", ""},
		{failure.QueueFull, "refused", "busy"},
		{failure.MessageTooBig, "refused", "too_large"},
		{failure.TopicNotFound, "refused", "bad_topic"},
		{failure.PartitionNotFound, "refused", "bad_partition"},
		{failure.ShuttingDown, "refused", "exiting"},
		{fate.Refuse("x"), "refused", "not_writable"},
		{fmt.Errorf("full: %w", failure.TopicFull), "refused", "topic_full"},
		{fate.Mark(syscall.ENOSPC, fate.Refused), "refused", "disk_full"},
		{errors.New("x"), "uncertain", "uncertain"},
		{fate.Mark(errors.New("x"), fate.Corrupt), "corrupt", "corrupt"},
	} {
		m := New(Options{})
		m.Histograms().ObservePublish(2*time.Millisecond, test.err)
		text := scrape(t, m)
		if want := fmt.Sprintf("brokerd_publish_duration_seconds_count{result=%q} 1\n", test.result); !strings.Contains(text, want) {
			t.Errorf("%v: no %s", test.err, want)
		}
		if want := fmt.Sprintf("brokerd_publish_errors_total{reason=%q} 1\n", test.reason); test.reason != "" && !strings.Contains(text, want) {
			t.Errorf("%v: no %s", test.err, want)
		}
	}
}

func TestChangesOfTheMetadataAreCounted(t *testing.T) {
	m := New(Options{})
	h := m.Histograms()
	h.ObserveChange(meta.ElectLeaders{Elections: []meta.Election{
		{Leader: "n1", Reason: meta.ReasonNodeDown},
		{Leader: "n1", Reason: meta.ReasonNodeDown},
		{Leader: "n1", Reason: meta.ReasonDrain}, // refused
		{Leader: "", Reason: meta.ReasonNodeDown},
		{Leader: "n2", Reason: operate.ReasonUnclean, Unclean: true},
		{Leader: "n2", Reason: "because"},
	}}, meta.Result{Failed: []error{nil, nil, failure.StaleVersion, nil, nil, nil}})
	h.ObserveChange(meta.AlterISR{ISR: []meta.NodeID{"n1"}}, meta.Result{})
	h.ObserveChange(meta.AlterISR{ISR: []meta.NodeID{"n1", "n2"}, Joiner: "n2"}, meta.Result{})
	h.ObserveChange(meta.AlterISR{ISR: []meta.NodeID{"n1", "n2", "n3"}, Joiner: "n3"}, meta.Result{})
	h.ObserveChange(meta.PauseTopic{}, meta.Result{})
	text := scrape(t, m)
	for _, want := range []string{
		`brokerd_partition_leader_elections_total{reason="node_down"} 2`,
		`brokerd_partition_leader_elections_total{reason="drain"} 0`,
		`brokerd_partition_leader_elections_total{reason="unclean"} 1`,
		`brokerd_partition_leader_elections_total{reason="other"} 1`,
		`brokerd_unclean_elections_total 1`,
		`brokerd_isr_shrinks_total 1`,
		`brokerd_isr_expands_total 2`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
}

func TestEphemeralNamesShareSeries(t *testing.T) {
	got := fold([]stats.Topic{
		topicOf("a", "c", "x1#ephemeral", "x2#ephemeral"),
		topicOf("b#ephemeral", "c", "d"),
		topicOf("d#ephemeral", "e#ephemeral"),
	}, 100)
	checkFold(t, got, []string{"a", "#ephemeral"}, []string{"a/c", "a/#ephemeral", "#ephemeral/#ephemeral"}, 0)
	if got.channels[2].Depth != 3 || got.topics[1].messages != 20 {
		t.Errorf("sums are %+v and %+v", got.channels[2], got.topics[1])
	}
}

func TestExcessSeriesAreSummed(t *testing.T) {
	got := fold([]stats.Topic{
		topicOf("a", "c", "d"),
		topicOf("b", "c", "d"),
		topicOf("c", "c", "d"),
		topicOf("d#ephemeral", "c"),
	}, 5)
	checkFold(t, got, []string{"a", "b", "_other", "#ephemeral"}, []string{"a/c", "a/d", "b/c", "_other/_other", "#ephemeral/#ephemeral"}, 4)
	if got.channels[3].Depth != 3 || got.topics[2].messages != 10 {
		t.Errorf("sums are %+v and %+v", got.channels[3], got.topics[2])
	}
}

func checkFold(t *testing.T, got folded, topics, channels []string, dropped int) {
	t.Helper()
	var haveTopics, haveChannels []string
	for _, s := range got.topics {
		haveTopics = append(haveTopics, s.name)
	}
	for _, s := range got.channels {
		haveChannels = append(haveChannels, s.topic+"/"+s.name)
	}
	if diff := cmp.Diff(topics, haveTopics); diff != "" {
		t.Errorf("topics (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(channels, haveChannels); diff != "" {
		t.Errorf("channels (-want +got):\n%s", diff)
	}
	if got.dropped != dropped {
		t.Errorf("%d were dropped, want %d", got.dropped, dropped)
	}
}

// TestFoldingLosesNothing compares sums before and after, and checks that no name occurs twice and
// that there are no more than allowed.
func TestFoldingLosesNothing(t *testing.T) {
	r := testrand.New(t)
	for range 200 {
		most := 1 + r.IntN(30)
		var stats []stats.Topic
		var messages uint64
		var depth int64
		for i := range r.IntN(20) {
			name := fmt.Sprintf("t%02d", i)
			if r.IntN(4) == 0 {
				name += "#ephemeral"
			}
			var channels []string
			for j := range r.IntN(5) {
				c := fmt.Sprintf("c%d", j)
				if r.IntN(4) == 0 {
					c += "#ephemeral"
				}
				channels = append(channels, c)
			}
			s := topicOf(name, channels...)
			messages += s.Messages
			depth += int64(len(channels))
			stats = append(stats, s)
		}
		got := fold(stats, most)
		seen := map[string]bool{}
		for _, s := range got.topics {
			messages -= s.messages
			if seen[s.name] {
				t.Fatalf("%s twice", s.name)
			}
			seen[s.name] = true
		}
		for _, s := range got.channels {
			depth -= s.Depth
			if key := s.topic + "/" + s.name; seen[key] {
				t.Fatalf("%s twice", key)
			} else {
				seen[key] = true
			}
		}
		const sums = 4 // _other and #ephemeral, and a channel of each
		if messages != 0 || depth != 0 || len(seen) > most+sums {
			t.Fatalf("%d messages and %d depth were lost, %d objects of at most %d", messages, depth, len(seen), most)
		}
	}
}

func BenchmarkObservePublish(b *testing.B) {
	h := New(Options{}).Histograms()
	b.ReportAllocs()
	for b.Loop() {
		h.ObservePublish(time.Millisecond, nil)
	}
}
