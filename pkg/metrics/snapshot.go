package metrics

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/brokerd/brokerd/pkg/diskspace"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/otlp"
	"github.com/brokerd/brokerd/pkg/peer"
	"github.com/brokerd/brokerd/pkg/stats"
)

// metric is a metric that is read when it is scraped.
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

// timed is a summary without quantiles: how often and how long in total.
type timed struct{ desc *prometheus.Desc }

func timing(name, help string) timed { return timed{prometheus.NewDesc(name, help, nil, nil)} }

// is returns the summary with its values.
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

	publishMessages = counter("brokerd_publish_messages_total", "Messages published and acknowledged.", "topic")
	publishBytes    = counter("brokerd_publish_bytes_total", "Message body bytes published.", "topic")
	topicDuplicates = counter("brokerd_topic_duplicates_total", "Duplicate messages not stored, recognized by their dedup ids.", "topic")
	topicRefused    = counter("brokerd_topic_full_refused_total", "Messages refused because the topic had reached max-bytes.", "topic")
	topicExpelled   = counter("brokerd_topic_full_dropped_total", "Messages dropped unfinished because the topic had reached max-bytes.", "topic")
	topicBytes      = gauge("brokerd_topic_bytes", "Log size of the topic on disk.", "topic")
	topicMessages   = gauge("brokerd_topic_messages", "Messages in the topic's logs, including finished ones.", "topic")
	topicDepth      = gauge("brokerd_topic_depth", "Messages of the topic that have not reached any channel.", "topic")
	topicQuota      = gauge("brokerd_topic_quota_used_ratio", "Part of the topic's max-bytes that is used, in its fullest partition; only of topics with max-bytes.", "topic")
	topicPaused     = gauge("brokerd_topic_paused", "1 if the topic is paused.", "topic")
	objectsDropped  = gauge("brokerd_metrics_objects_dropped", "Topics and channels above the series limit, aggregated under the name _other.")

	channelDepth        = gauge("brokerd_channel_depth", "Messages waiting in the channel: neither in flight nor deferred.", "topic", "channel")
	channelInFlight     = gauge("brokerd_channel_in_flight", "Messages delivered and not yet finished, requeued or timed out.", "topic", "channel")
	channelDeferred     = gauge("brokerd_channel_deferred", "Deferred messages that are not due yet.", "topic", "channel")
	channelConsumers    = gauge("brokerd_channel_consumers", "Subscriptions.", "topic", "channel")
	channelReady        = gauge("brokerd_channel_ready_messages", "Messages that the channel's consumers take at a time: their RDY, summed.", "topic", "channel")
	channelPaused       = gauge("brokerd_channel_paused", "1 if the channel is paused.", "topic", "channel")
	channelOldest       = gauge("brokerd_channel_oldest_message_age_seconds", "Age of the oldest unfinished message; 0 if there is none.", "topic", "channel")
	channelSpinning     = gauge("brokerd_channel_spinning_messages", "Messages requeued immediately after delivery more than 100 times per second; at most ten per partition.", "topic", "channel")
	channelLag          = gauge("brokerd_channel_lag_messages", "Committed end minus confirmed position, summed over partitions.", "topic", "channel")
	channelDelivered    = counter("brokerd_channel_delivered_total", "Deliveries.", "topic", "channel")
	channelFinished     = counter("brokerd_channel_finished_total", "Messages finished.", "topic", "channel")
	channelRequeued     = counter("brokerd_channel_requeued_total", "Messages requeued by consumers.", "topic", "channel")
	channelTimedOut     = counter("brokerd_channel_timed_out_total", "Deliveries that timed out.", "topic", "channel")
	channelExpired      = counter("brokerd_channel_expired_total", "Messages dropped or dead-lettered instead of delivered because their time to live was over.", "topic", "channel")
	channelFiltered     = counter("brokerd_channel_filtered_total", "Messages finished without a delivery because the channel's filter did not choose them.", "topic", "channel")
	channelUnjudged     = counter("brokerd_channel_filter_errors_total", "Of the filtered messages, those on which the filter's evaluation failed.", "topic", "channel")
	channelExhausted    = gauge("brokerd_channel_exhausted_messages", "Messages that used up their attempts and are still in the channel.", "topic", "channel")
	channelBlocked      = gauge("brokerd_channel_blocked_partitions", "Partitions that deliver nothing behind a message that has had all its attempts, as on-exhausted block says.", "topic", "channel")
	channelBackingOff   = gauge("brokerd_channel_backing_off_messages", "Messages waiting for the channel's backoff.", "topic", "channel")
	channelRateLimited  = gauge("brokerd_channel_rate_limited", "1 if delivery is limited by the channel's rate.", "topic", "channel")
	channelThrottled    = counter("brokerd_channel_throttled_seconds_total", "Time that consumers waited for the channel's rate.", "topic", "channel")
	channelBackedOff    = counter("brokerd_channel_backed_off_total", "Redeliveries delayed by the channel's backoff.", "topic", "channel")
	channelDeadLettered = counter("brokerd_channel_dead_lettered_total", "Messages moved to the dead-letter topic.", "topic", "channel")
	channelDropped      = counter("brokerd_channel_dropped_total", "Messages dropped after their last attempt.", "topic", "channel")

	clusterPartitions      = gauge("brokerd_cluster_partitions", "Partitions in the cluster, as seen by this node.")
	clusterOffline         = gauge("brokerd_cluster_partitions_offline", "Partitions without a leader.")
	clusterUnderReplicated = gauge("brokerd_cluster_partitions_under_replicated", "Partitions with an out-of-sync replica.")
	clusterUnderMinISR     = gauge("brokerd_cluster_partitions_under_min_isr", "Partitions below min_isr, which refuse publishes.")
	clusterNonPreferred    = gauge("brokerd_cluster_partitions_non_preferred_leader", "Partitions not led by their preferred replica.")
	clusterMoving          = gauge("brokerd_cluster_partitions_moving", "Partitions with a reassignment in progress.")
	nodePartitions         = gauge("brokerd_node_partitions", "Partitions with a replica on this node.")
	nodeLeaders            = gauge("brokerd_node_leaders", "Partitions led by this node.")

	connections      = gauge("brokerd_connections", "Open connections.", "proto", "role")
	accepted         = counter("brokerd_connections_total", "Connections accepted.", "proto")
	connectionErrors = counter("brokerd_connection_errors_total", "Connections that ended with an error.", "reason")
	clientBytes      = counter("brokerd_client_bytes_total", "Bytes exchanged with clients.", "direction")
	commands         = counter("brokerd_commands_total", "Client commands.", "command")
	commandErrors    = counter("brokerd_command_errors_total", "Client commands answered with an error.", "code")
	authFailures     = counter("brokerd_auth_failures_total", "Failed client authentications and authorizations.", "protocol")

	tlsConnections = gauge("brokerd_connections_tls", "Of the open connections of proto tcp, those over TLS.")
	tokenEnds      = gauge("brokerd_token_not_after_timestamp_seconds", "When the first of the valid access tokens expires; +Inf if none does.")

	trashTopics = gauge("brokerd_trash_topics", "Deleted topics that this node keeps data of, for topic restore.")
	trashBytes  = gauge("brokerd_trash_bytes", "Size on this node's disk of the data of deleted topics, when they were deleted.")

	logSegments  = gauge("brokerd_log_segments", "Log segments on this node.")
	logBytes     = gauge("brokerd_log_bytes", "Log size on this node.")
	logUnflushed = gauge("brokerd_log_unflushed_messages", "Messages appended but not yet synced; 0 with sync=always.")
	logRecovery  = gauge("brokerd_log_recovery_seconds", "Time spent opening logs at startup.")
	logCorrupt   = counter("brokerd_log_corrupt_records_total", "Corrupt record ranges found since startup.")
	logDamaged   = gauge("brokerd_log_damaged_ranges", "Corrupt record ranges currently in the logs on this node; cleared when repaired from another replica.")
	logScrubbed  = counter("brokerd_scrub_bytes_total", "Log bytes scrubbed: read from disk to detect corruption.")
	logUnchecked = gauge("brokerd_scrub_oldest_seconds", "Time since the last full scrub of the least recently scrubbed replica on this node, or since it was first seen.")
	logTruncated = counter("brokerd_log_truncated_bytes_total", "Bytes truncated from log ends.")
	logAppends   = counter("brokerd_log_appends_total", "Batches appended.")
	logRecords   = counter("brokerd_log_appended_messages_total", "Messages in appended batches.")
	logAppended  = counter("brokerd_log_appended_bytes_total", "Bytes of appended batches.")
	logSyncs     = counter("brokerd_log_fsyncs_total", "Log syncs to disk.")

	diskFree      = gauge("brokerd_disk_free_bytes", "Free space on the data disk.")
	diskSize      = gauge("brokerd_disk_total_bytes", "Size of the data disk.")
	diskReserved  = gauge("brokerd_disk_reserved_bytes", "Free disk space below which publishes are refused.")
	diskWatermark = gauge("brokerd_disk_watermark_state", "Disk level: 0 enough free space, 1 low, 2 publishes refused.")

	raftIsLeader    = gauge("brokerd_raft_is_leader", "1 on the metadata leader.")
	raftTerm        = gauge("brokerd_raft_term", "Raft term of the metadata.")
	raftCommit      = gauge("brokerd_raft_commit_index", "Index of the last committed metadata command.")
	raftApplied     = gauge("brokerd_raft_applied_index", "Index of the last metadata command applied on this node.")
	raftSnapshot    = gauge("brokerd_raft_snapshot_index", "Index of the last metadata command in the newest snapshot.")
	raftVoters      = gauge("brokerd_raft_voters", "Metadata voters.")
	raftTolerance   = gauge("brokerd_raft_failure_tolerance", "Voters that may still fail before the metadata quorum is lost; negative: voters missing for a quorum.")
	raftLastContact = gauge("brokerd_raft_last_contact_seconds", "Time since the last contact with the metadata leader; -1 if never.")
	raftStore       = gauge("brokerd_raft_store_bytes", "Metadata log size on disk.")

	raftStoreFree = gauge("brokerd_raft_store_free_bytes", "Of the metadata log, bytes in unused pages: they are used again, and given back at the next start.")

	raftChanges   = counter("brokerd_raft_leader_changes_total", "Metadata leader changes observed by this node.")
	raftElections = counter("brokerd_raft_elections_total", "Metadata elections that this node stood for.")
	raftApplies   = timing("brokerd_raft_apply_duration_seconds", "Applying metadata commands to the state on this node, by batch.")
	raftWrites    = timing("brokerd_raft_write_duration_seconds", "Writing to the metadata log on this node, synced.")

	raftLate    = gauge("brokerd_raft_late_seconds", "Scheduling delay of this process or write latency of its metadata disk: second-worst sample of the last 30 s.")
	raftStalled = gauge("brokerd_raft_write_stalled_seconds", "Duration of the write to the metadata disk in progress; 0 if none.")

	clusterNodes = gauge("brokerd_cluster_nodes", "Cluster nodes by state, as seen by this node.", "state")

	replicaPartitions = gauge("brokerd_replica_partitions", "Partitions led by this node that the peer follows.", "peer")
	replicaBehind     = gauge("brokerd_replica_partitions_behind", "Of those, partitions in which the peer is behind.", "peer")
	replicaMessages   = gauge("brokerd_replica_lag_messages", "Replication lag of the peer, in messages, over partitions led by this node.", "peer")
	replicaBytes      = gauge("brokerd_replica_lag_bytes", "Replication lag of the peer, in bytes, over partitions led by this node.", "peer")
	replicaSeconds    = gauge("brokerd_replica_lag_seconds", "Longest time the peer has been behind in any of those partitions.", "peer")

	stalls = gauge("brokerd_stalled_partitions", "Partitions with a stalled operation, by health reason code.", "code")

	uncommittedBytes  = gauge("brokerd_uncommitted_bytes", "Uncommitted bytes in partitions led by this node.")
	uncommittedBudget = gauge("brokerd_uncommitted_budget_bytes", "Limit of uncommitted bytes.")
	uncommittedFull   = counter("brokerd_uncommitted_full_total", "Publishes delayed or refused by the limit of uncommitted bytes.")

	catchUpRate = gauge("brokerd_catch_up_rate_bytes", "Bytes per second that may be sent to replicas that are not in sync; 0 while there are none.")

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

// snapshot reads Sources when it is scraped.
type snapshot struct {
	sources    Sources
	maxObjects int
}

// Describe implements prometheus.Collector. It names nothing, since what there
// is depends on the sources.
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
		out.placement(src.Placement())
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
		out.lags(src.Lags())
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

// sink is where a scrape goes.
type sink chan<- prometheus.Metric

func (s sink) put(metrics ...prometheus.Metric) {
	for _, m := range metrics {
		s <- m
	}
}

// stored tells what is on the disk, the metadata included.
func (s sink) stored(src *Sources) {
	if src.Logs != nil {
		s.logs(src.Logs())
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
		s.disk(src.Disk())
	}
	if src.Raft != nil {
		s.raft(src.Raft())
	}
	if src.Tolerance != nil {
		s.put(raftTolerance.is(float64(src.Tolerance())))
	}
}

// clients tells what clients wait for, were refused, and what is noted of their messages.
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
		s.put(
			publishMessages.is(float64(t.messages), t.name),
			publishBytes.is(float64(t.bytes), t.name),
			topicBytes.is(float64(t.logBytes), t.name),
			topicMessages.is(float64(t.stored), t.name),
			topicDepth.is(float64(t.depth), t.name),
			topicPaused.is(truth(t.paused), t.name),
			topicDuplicates.is(float64(t.duplicates), t.name),
			topicRefused.is(float64(t.refused), t.name),
			topicExpelled.is(float64(t.expelled), t.name),
		)
		if t.quota >= 0 {
			s.put(topicQuota.is(t.quota, t.name))
		}
	}
	for _, c := range f.channels {
		s.put(
			channelDepth.is(float64(c.depth), c.topic, c.name),
			channelInFlight.is(float64(c.inFlight), c.topic, c.name),
			channelDeferred.is(float64(c.deferred), c.topic, c.name),
			channelConsumers.is(float64(c.consumers), c.topic, c.name),
			channelReady.is(float64(c.ready), c.topic, c.name),
			channelPaused.is(truth(c.paused), c.topic, c.name),
			channelOldest.is(c.oldest.Seconds(), c.topic, c.name),
			channelSpinning.is(float64(c.spinning), c.topic, c.name),
			channelLag.is(float64(c.lag), c.topic, c.name),
			channelDelivered.is(float64(c.delivered), c.topic, c.name),
			channelFinished.is(float64(c.finished), c.topic, c.name),
			channelRequeued.is(float64(c.requeued), c.topic, c.name),
			channelTimedOut.is(float64(c.timeout), c.topic, c.name),
			channelExpired.is(float64(c.expired), c.topic, c.name),
			channelFiltered.is(float64(c.filtered.Left), c.topic, c.name),
			channelUnjudged.is(float64(c.filtered.Failed), c.topic, c.name),
		)
		s.failing(c)
	}
}

func (s sink) failing(c *channelSum) {
	f := &c.failing
	s.put(
		channelExhausted.is(float64(f.Exhausted), c.topic, c.name),
		channelBlocked.is(float64(c.blocked), c.topic, c.name),
		channelBackingOff.is(float64(f.BackingOff), c.topic, c.name),
		channelRateLimited.is(truth(f.RateLimited), c.topic, c.name),
		channelThrottled.is(f.Throttled.Seconds(), c.topic, c.name),
		channelBackedOff.is(float64(f.BackedOff), c.topic, c.name),
		channelDeadLettered.is(float64(f.DeadLettered), c.topic, c.name),
		channelDropped.is(float64(f.Dropped), c.topic, c.name),
	)
}

func (s sink) placement(p operate.Placement) {
	s.put(
		clusterPartitions.is(float64(p.Partitions)),
		clusterOffline.is(float64(p.Offline)),
		clusterUnderReplicated.is(float64(p.UnderReplicated)),
		clusterUnderMinISR.is(float64(p.UnderMinISR)),
		clusterNonPreferred.is(float64(p.NonPreferredLeader)),
		clusterMoving.is(float64(p.Moving)),
		nodePartitions.is(float64(p.Hosted)),
		nodeLeaders.is(float64(p.Led)),
	)
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

func (s sink) logs(l host.LogStats) {
	s.put(
		logSegments.is(float64(l.Segments)),
		logBytes.is(float64(l.Bytes)),
		logUnflushed.is(float64(l.Unsynced)),
		logRecovery.is(l.Recovery.Seconds()),
		logCorrupt.is(float64(l.Damaged)),
		logDamaged.is(float64(l.Unreadable)),
		logTruncated.is(float64(l.TornBytes)),
		logAppends.is(float64(l.Appends)),
		logRecords.is(float64(l.Records)),
		logAppended.is(float64(l.AppendedBytes)),
		logSyncs.is(float64(l.Syncs)),
	)
}

func (s sink) disk(d diskspace.State) {
	s.put(
		diskFree.is(float64(d.Free)),
		diskSize.is(float64(d.Total)),
		diskReserved.is(float64(d.Reserve)),
		diskWatermark.is(watermark(d)),
	)
}

// watermark says how near the disk is to its reserve: 0 it is not, 1 free space is getting low, 2
// publishes are refused.
func watermark(d diskspace.State) float64 {
	switch {
	case d.Low:
		return 2
	case d.Free < 2*d.Reserve:
		return 1
	}
	return 0
}

func (s sink) raft(r raftstore.Stats) {
	contact := r.LastContact.Seconds()
	if r.LastContact < 0 {
		contact = -1
	}
	s.put(
		raftIsLeader.is(truth(r.IsLeader)),
		raftTerm.is(float64(r.Term)),
		raftCommit.is(float64(r.CommitIndex)),
		raftApplied.is(float64(r.AppliedIndex)),
		raftSnapshot.is(float64(r.SnapshotIndex)),
		raftVoters.is(float64(len(r.Voters))),
		raftLastContact.is(contact),
		raftStore.is(float64(r.StoreBytes)),
		raftStoreFree.is(float64(r.StoreFree)),
		raftStalled.is(r.Stalled.Seconds()),
		raftChanges.is(float64(r.LeaderChanges)),
		raftElections.is(float64(r.Elections)),
		raftApplies.is(r.Applies),
		raftWrites.is(r.Writes),
		raftLate.is(r.Late.Seconds()),
	)
}

func (s sink) lags(all []operate.ReplicaLag) {
	for _, l := range all {
		s.put(
			replicaPartitions.is(float64(l.Partitions), l.Node),
			replicaBehind.is(float64(l.Behind), l.Node),
			replicaMessages.is(float64(l.Messages), l.Node),
			replicaBytes.is(float64(l.Bytes), l.Node),
			replicaSeconds.is(l.Longest.Seconds(), l.Node),
		)
	}
}

// link is the traffic with one node in one class.
type link struct{ node, class string }

// peers exports the traffic with other nodes. Bytes of both directions of
// dialling are one sum; nodes that have not said who they are have none.
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

// moment is a time in seconds since 1970; of the zero time, which never comes, +Inf.
func moment(t time.Time) float64 {
	if t.IsZero() {
		return math.Inf(1)
	}
	return float64(t.UnixNano()) / 1e9
}

// truth is 1 for true and 0 for false.
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
