package metrics

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/brokerd/brokerd/pkg/diskspace"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/otlp"
	"github.com/brokerd/brokerd/pkg/peer"
	"github.com/brokerd/brokerd/pkg/stats"
)

// metric is a metric whose value is read at each scrape.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func gauge(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue}
}

func counter(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc(name, help, labels, nil), prometheus.CounterValue}
}

// timed is a summary without quantiles: a count and a total duration.
type timed struct{ desc *prometheus.Desc }

func timing(name, help string) timed { return timed{prometheus.NewDesc(name, help, nil, nil)} }

// is returns the summary with values.
func (m timed) is(t raftstore.Timing) prometheus.Metric {
	return prometheus.MustNewConstSummary(m.desc, t.Count, t.Total.Seconds(), nil)
}

// is returns the metric with a value.
func (m metric) is(v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(m.desc, m.kind, v, labels...)
}

// The metrics that are read from Sources.
var (
	nodeReady       = gauge("brokerd_node_ready", "1 if the node is ready, as reported by /readyz.")
	nodeMaintenance = gauge("brokerd_node_maintenance", "1 if the node is draining.")

	topicQuota     = gauge("brokerd_topic_quota_used_ratio", "Used part of the topic's max-bytes, in its fullest partition; only for topics with max-bytes.", "topic")
	objectsDropped = gauge("brokerd_metrics_objects_dropped", "Topics and channels above the series limit, aggregated under the name _other.")

	connections      = gauge("brokerd_connections", "Open connections.", "proto", "role")
	accepted         = counter("brokerd_connections_total", "Connections accepted.", "proto")
	connectionErrors = counter("brokerd_connection_errors_total", "Connections closed because of an error.", "reason")
	clientBytes      = counter("brokerd_client_bytes_total", "Bytes exchanged with clients.", "direction")
	commands         = counter("brokerd_commands_total", "Client commands.", "command")
	commandErrors    = counter("brokerd_command_errors_total", "Client commands answered with an error.", "code")
	authFailures     = counter("brokerd_auth_failures_total", "Failed client authentications and authorizations.", "protocol")

	tlsConnections = gauge("brokerd_connections_tls", "Open connections of proto tcp that use TLS.")
	tokenEnds      = gauge("brokerd_token_not_after_timestamp_seconds", "Time at which the next valid access token expires; +Inf if none expires.")

	trashTopics = gauge("brokerd_trash_topics", "Deleted topics that this node keeps on disk for topic restore.")
	trashBytes  = gauge("brokerd_trash_bytes", "Size of deleted topics on this node's disk at the time of their deletion.")

	logScrubbed  = counter("brokerd_scrub_bytes_total", "Log bytes scrubbed: read from disk to detect corruption.")
	logUnchecked = gauge("brokerd_scrub_oldest_seconds", "Time since the last full scrub of the least recently scrubbed replica on this node, or since it was first seen.")

	raftTolerance = gauge("brokerd_raft_failure_tolerance", "Voters that may still fail before the metadata quorum is lost; negative: voters missing for a quorum.")

	raftApplies = timing("brokerd_raft_apply_duration_seconds", "Time to apply a batch of metadata commands to the state on this node.")
	raftWrites  = timing("brokerd_raft_write_duration_seconds", "Time to write to the metadata log on this node, including the sync.")

	clusterNodes = gauge("brokerd_cluster_nodes", "Cluster nodes by state, as seen by this node.", "state")

	stalls = gauge("brokerd_stalled_partitions", "Partitions with a stalled operation, by health reason code.", "code")

	uncommittedBytes  = gauge("brokerd_uncommitted_bytes", "Uncommitted bytes in partitions led by this node.")
	uncommittedBudget = gauge("brokerd_uncommitted_budget_bytes", "Limit of uncommitted bytes.")
	uncommittedFull   = counter("brokerd_uncommitted_full_total", "Publishes delayed or refused by the limit of uncommitted bytes.")

	catchUpRate = gauge("brokerd_catch_up_rate_bytes", "Limit in bytes per second for copying to replicas that are not in sync; 0 while there are none.")

	memoryBudget  = gauge("brokerd_memory_budget_bytes", "Client memory budget.")
	memoryUsed    = gauge("brokerd_memory_budget_used_bytes", "Client memory in use, by kind.", "kind")
	memoryWaiting = gauge("brokerd_memory_budget_waiting", "Requests waiting for client memory.")
	memoryWaited  = counter("brokerd_memory_budget_waited_total", "Requests that had to wait for client memory.")
	memoryRefused = counter("brokerd_memory_budget_refused_total", "Requests refused as busy because the client memory budget was exhausted.")
	turnsWaiting  = gauge("brokerd_turns_waiting", "Connections waiting for a CPU turn for long work.")
	traceEvents   = counter("brokerd_trace_events_total", "Trace events recorded.")
	traceLost     = counter("brokerd_trace_lost_total", "Groups of trace events that could not be stored.")
	traceBytes    = gauge("brokerd_trace_bytes", "Size of trace events on disk.")
	spansSent     = counter("brokerd_otlp_spans_sent_total", "Spans that the OpenTelemetry collector took.")
	spansDropped  = counter("brokerd_otlp_spans_dropped_total", "Spans that were dropped: rejected by the collector, unsent since it did not take them in time, or missed since the node was busy (counted by event).", "reason")
	spansWaiting  = gauge("brokerd_otlp_spans_waiting", "Spans waiting for the OpenTelemetry collector.")
	uncreated     = counter("brokerd_creations_refused_total", "Topic and channel creations refused by the creation limit.")

	forwardPartitions = gauge("brokerd_forward_partitions", "Forward queues with queued publishes.")
	forwardBytes      = gauge("brokerd_forward_waiting_bytes", "Bytes of queued publishes in forward queues.")
	relayServed       = gauge("brokerd_relay_subscriptions", "Subscriptions on this node for remote consumers, connected to other nodes.")
	relays            = counter("brokerd_relay_subscriptions_begun_total", "Subscriptions relayed to other nodes for consumers connected to this node.")

	peerConnections = gauge("brokerd_peer_connections", "Open connections to the peer.", "peer", "class", "direction")
	peerBytes       = counter("brokerd_peer_bytes_total", "Bytes exchanged with the peer, including headers.", "peer", "class", "direction")
	peerCalls       = counter("brokerd_peer_calls_total", "Cluster calls to the peer.", "peer", "class")
	peerFailed      = counter("brokerd_peer_calls_failed_total", "Cluster calls that were not sent or lost their connection.", "peer", "class")
	peerConnects    = counter("brokerd_peer_connects_total", "Connections established to the peer.", "peer", "class")
	peerRoundTrip   = gauge("brokerd_peer_round_trip_seconds", "Recent round-trip time to the peer.", "peer", "class")

	certificateReloads = counter("brokerd_tls_reload_total", "Reloads of certificate files, by result; after a failure the old certificate stays in use.", "usage", "result")

	certificateEnd = gauge("brokerd_tls_certificate_not_after_timestamp_seconds", "Expiry time of the TLS certificate in use.", "usage")
)

// snapshot reads Sources at each scrape.
type snapshot struct {
	sources    Sources
	maxObjects int
}

// Describe implements prometheus.Collector. It describes nothing, because the
// metrics depend on the sources.
func (*snapshot) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (s *snapshot) Collect(to chan<- prometheus.Metric) {
	out := sink(to)
	src := s.sources
	if src.Ready != nil {
		out.put(nodeReady.is(truth(len(src.Ready()) == 0)))
	}
	if src.Draining != nil {
		out.put(nodeMaintenance.is(truth(src.Draining())))
	}
	if src.Topics != nil {
		out.topics(src.Topics(), s.maxObjects)
	}
	if src.Placement != nil {
		putAll(out, placementMetrics, new(src.Placement()))
	}
	if src.Server != nil {
		out.server(src.Server())
	}
	out.stored(&src)
	if src.Nodes != nil {
		for state, n := range src.Nodes() {
			out.put(clusterNodes.is(float64(n), state))
		}
	}
	if src.Lags != nil {
		lags := src.Lags()
		for i := range lags {
			putAll(out, lagMetrics, &lags[i], lags[i].Node)
		}
	}
	if src.Replication != nil {
		r := src.Replication()
		out.put(uncommittedBytes.is(float64(r.Uncommitted)), uncommittedBudget.is(float64(r.UncommittedLimit)),
			uncommittedFull.is(float64(r.UncommittedFull)), catchUpRate.is(float64(r.CatchUpRate)))
	}
	if src.Memory != nil {
		out.memory(src.Memory())
	}
	out.clients(&src)
	if src.Stalls != nil {
		for code, n := range src.Stalls() {
			out.put(stalls.is(float64(n), code))
		}
	}
	if src.Peers != nil {
		out.peers(src.Peers())
	}
	if src.Forwarding != nil {
		f := src.Forwarding()
		out.put(
			forwardPartitions.is(float64(f.Partitions)), forwardBytes.is(float64(f.Bytes)),
			relayServed.is(float64(f.Served)), relays.is(float64(f.Relays)),
		)
	}
	if src.TokenEnds != nil {
		out.put(tokenEnds.is(moment(src.TokenEnds())))
	}
	if src.Certificates != nil {
		out.certificates(src.Certificates())
	}
}

// sink receives the metrics of a scrape.
type sink chan<- prometheus.Metric

func (s sink) put(metrics ...prometheus.Metric) {
	for _, m := range metrics {
		s <- m
	}
}

// stored exports the metrics of what is on disk, including the metadata.
func (s sink) stored(src *Sources) {
	if src.Logs != nil {
		putAll(s, logMetrics, new(src.Logs()))
	}
	if src.Scrubber != nil {
		c := src.Scrubber()
		s.put(logScrubbed.is(float64(c.Bytes)), logUnchecked.is(c.Oldest.Seconds()))
	}
	if src.Trash != nil {
		topics, bytes := src.Trash()
		s.put(trashTopics.is(float64(topics)), trashBytes.is(float64(bytes)))
	}
	if src.Disk != nil {
		putAll(s, diskMetrics, new(src.Disk()))
	}
	if src.Raft != nil {
		s.raft(new(src.Raft()))
	}
	if src.Tolerance != nil {
		s.put(raftTolerance.is(float64(src.Tolerance())))
	}
}

// clients exports what clients wait for and were refused, and what is recorded of their
// messages.
func (s sink) clients(src *Sources) {
	if src.Turns != nil {
		s.put(turnsWaiting.is(float64(src.Turns())))
	}
	if src.Uncreated != nil {
		s.put(uncreated.is(float64(src.Uncreated())))
	}
	if src.Traces != nil {
		t := src.Traces()
		s.put(traceEvents.is(float64(t.Events)))
		s.put(traceLost.is(float64(t.Lost)))
		s.put(traceBytes.is(float64(t.Bytes)))
	}
	if src.Spans != nil {
		s.spans(src.Spans())
	}
}

func (s sink) spans(o otlp.Stats) {
	if !o.Enabled {
		return
	}
	s.put(spansSent.is(float64(o.Sent)))
	s.put(spansDropped.is(float64(o.Rejected), "rejected"))
	s.put(spansDropped.is(float64(o.Unsent), "unsent"))
	s.put(spansDropped.is(float64(o.Missed), "missed"))
	s.put(spansWaiting.is(float64(o.Waiting)))
}

func (s sink) topics(stats []stats.Topic, most int) {
	f := fold(stats, most)
	s.put(objectsDropped.is(float64(f.dropped)))
	for _, t := range f.topics {
		putAll(s, topicMetrics, t, t.name)
		if t.quota >= 0 {
			s.put(topicQuota.is(t.quota, t.name))
		}
	}
	for _, c := range f.channels {
		putAll(s, channelMetrics, c, c.topic, c.name)
	}
}

func (s sink) server(v Server) {
	for kind, n := range v.Connections {
		s.put(connections.is(float64(n), kind.Protocol, kind.Role))
	}
	s.put(tlsConnections.is(float64(v.TLS)))
	for _, family := range []struct {
		metric metric
		values map[string]uint64
	}{
		{accepted, v.Accepted},
		{connectionErrors, v.ConnectionErrors},
		{commands, v.Commands},
		{commandErrors, v.CommandErrors},
		{authFailures, v.AuthFailures},
		{clientBytes, map[string]uint64{"in": v.BytesIn, "out": v.BytesOut}},
	} {
		for label, n := range family.values {
			s.put(family.metric.is(float64(n), label))
		}
	}
}

// watermark returns how close the disk is to its reserve: 0 not close, 1 free space is getting
// low, 2 publishes are refused.
func watermark(d *diskspace.State) float64 {
	switch {
	case d.Low:
		return 2
	case d.Free < 2*d.Reserve:
		return 1
	}
	return 0
}

func (s sink) raft(r *raftstore.Stats) {
	putAll(s, raftMetrics, r)
	s.put(raftApplies.is(r.Applies), raftWrites.is(r.Writes))
}

// contact returns the time since the last contact with the metadata leader, in seconds; -1 if
// there was none.
func contact(r *raftstore.Stats) float64 {
	if r.LastContact < 0 {
		return -1
	}
	return r.LastContact.Seconds()
}

// link is the traffic with one node in one class.
type link struct{ node, class string }

// peers exports the traffic with other nodes. Bytes over connections dialled by
// either side are one sum; nodes that have not introduced themselves are left
// out.
func (s sink) peers(all []peer.Stats) {
	sent, received := map[link]uint64{}, map[link]uint64{}
	for i := range all {
		p := &all[i]
		if p.Node == "" {
			continue
		}
		l := link{string(p.Node), p.Class.String()}
		sent[l] += p.Sent
		received[l] += p.Received
		if p.Inbound {
			s.put(peerConnections.is(float64(p.Connected), l.node, l.class, "in"))
			continue
		}
		s.put(
			peerConnections.is(float64(p.Connected), l.node, l.class, "out"),
			peerCalls.is(float64(p.Calls), l.node, l.class),
			peerFailed.is(float64(p.Failed), l.node, l.class),
			peerConnects.is(float64(p.Connects), l.node, l.class),
		)
		if p.RoundTrip > 0 {
			s.put(peerRoundTrip.is(p.RoundTrip.Seconds(), l.node, l.class))
		}
	}
	for l := range sent {
		s.put(
			peerBytes.is(float64(sent[l]), l.node, l.class, "out"),
			peerBytes.is(float64(received[l]), l.node, l.class, "in"),
		)
	}
}

func (s sink) certificates(all []Certificate) {
	for _, c := range all {
		s.put(certificateEnd.is(float64(c.NotAfter.Unix()), c.Usage),
			certificateReloads.is(float64(c.Reloaded), c.Usage, "ok"), certificateReloads.is(float64(c.Failed), c.Usage, "failed"))
	}
}

// moment returns a time in seconds since 1970; the zero time, which means never, is
// +Inf.
func moment(t time.Time) float64 {
	if t.IsZero() {
		return math.Inf(1)
	}
	return float64(t.UnixNano()) / 1e9
}

// truth returns 1 for true and 0 for false.
func truth(v bool) float64 {
	if v {
		return 1
	}
	return 0
}

func (s sink) memory(u limit.MemoryUsage) {
	s.put(memoryBudget.is(float64(u.Limit)), memoryWaiting.is(float64(u.Waiting)),
		memoryWaited.is(float64(u.Waited)), memoryRefused.is(float64(u.Refused)))
	for use := range limit.UseCount {
		s.put(memoryUsed.is(float64(u.Uses[use]), use.String()))
	}
}
