package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/brokerd/brokerd/pkg/broker"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/peer"
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

// is returns the metric with a value.
func (m metric) is(v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(m.desc, m.kind, v, labels...)
}

// The metrics that are read from Sources.
var (
	nodeReady       = gauge("brokerd_node_ready", "1 if the node serves as a member of the cluster, as on /readyz.")
	nodeMaintenance = gauge("brokerd_node_maintenance", "1 if the node is being taken out of service.")

	publishMessages = counter("brokerd_publish_messages_total", "Messages that were published and acknowledged.", "topic")
	publishBytes    = counter("brokerd_publish_bytes_total", "Bytes of the bodies of published messages.", "topic")
	topicBytes      = gauge("brokerd_topic_bytes", "Bytes of the topic's logs on disk.", "topic")
	topicMessages   = gauge("brokerd_topic_messages", "Messages in the topic's logs, finished ones included.", "topic")
	topicDepth      = gauge("brokerd_topic_depth", "Messages that no channel has got yet.", "topic")
	topicPaused     = gauge("brokerd_topic_paused", "1 if the topic is paused.", "topic")
	objectsDropped  = gauge("brokerd_metrics_objects_dropped", "Topics and channels beyond the limit, summed into the name _other.")

	channelDepth     = gauge("brokerd_channel_depth", "Messages that wait: neither in flight nor deferred.", "topic", "channel")
	channelInFlight  = gauge("brokerd_channel_in_flight", "Messages that were delivered and are not answered yet.", "topic", "channel")
	channelDeferred  = gauge("brokerd_channel_deferred", "Messages that are not due yet.", "topic", "channel")
	channelConsumers = gauge("brokerd_channel_consumers", "Subscriptions.", "topic", "channel")
	channelPaused    = gauge("brokerd_channel_paused", "1 if the channel is paused.", "topic", "channel")
	channelOldest    = gauge("brokerd_channel_oldest_message_age_seconds", "Age of the oldest unfinished message; 0 without one.", "topic", "channel")
	channelLag       = gauge("brokerd_channel_lag_messages", "Committed end less the confirmed position, over all partitions.", "topic", "channel")
	channelDelivered = counter("brokerd_channel_delivered_total", "Deliveries.", "topic", "channel")
	channelFinished  = counter("brokerd_channel_finished_total", "Messages that were finished.", "topic", "channel")
	channelRequeued  = counter("brokerd_channel_requeued_total", "Messages that a consumer put back.", "topic", "channel")
	channelTimedOut  = counter("brokerd_channel_timed_out_total", "Deliveries that were not answered in time.", "topic", "channel")

	clusterPartitions      = gauge("brokerd_cluster_partitions", "Partitions of the cluster, as this node sees it.")
	clusterOffline         = gauge("brokerd_cluster_partitions_offline", "Partitions without a leader.")
	clusterUnderReplicated = gauge("brokerd_cluster_partitions_under_replicated", "Partitions with a replica that is not in sync.")
	clusterUnderMinISR     = gauge("brokerd_cluster_partitions_under_min_isr", "Partitions that refuse publishes for want of replicas in sync.")
	clusterNonPreferred    = gauge("brokerd_cluster_partitions_non_preferred_leader", "Partitions that another than their preferred replica leads.")
	clusterMoving          = gauge("brokerd_cluster_partitions_moving", "Partitions whose replicas are being changed.")
	nodePartitions         = gauge("brokerd_node_partitions", "Partitions with a replica on this node.")
	nodeLeaders            = gauge("brokerd_node_leaders", "Partitions that this node leads.")

	connections      = gauge("brokerd_connections", "Open connections.", "proto", "role")
	accepted         = counter("brokerd_connections_total", "Connections that were accepted.", "proto")
	connectionErrors = counter("brokerd_connection_errors_total", "Connections that ended in an error.", "reason")
	clientBytes      = counter("brokerd_client_bytes_total", "Bytes from and to clients.", "direction")
	commands         = counter("brokerd_commands_total", "Commands of clients.", "command")
	commandErrors    = counter("brokerd_command_errors_total", "Commands that were answered with an error.", "command", "code")
	authFailures     = counter("brokerd_auth_failures_total", "Clients that failed to prove who they are or what they may.", "reason")

	logSegments  = gauge("brokerd_log_segments", "Segments of the logs on this node.")
	logBytes     = gauge("brokerd_log_bytes", "Bytes of the logs on this node.")
	logUnflushed = gauge("brokerd_log_unflushed_messages", "Messages that are appended and not yet synced; 0 under sync always.")
	logRecovery  = gauge("brokerd_log_recovery_seconds", "Time that opening the logs took at the start.")
	logCorrupt   = counter("brokerd_log_corrupt_records_total", "Damaged ranges of records that were found since the start.")
	logDamaged   = gauge("brokerd_log_damaged_ranges", "Damaged ranges of records in the logs on this node, until they are copied from another replica.")
	logScrubbed  = counter("brokerd_scrub_bytes_total", "Bytes of the logs that were read from disk to find damage.")
	logUnchecked = gauge("brokerd_scrub_oldest_seconds", "Time since all of the replica on this node was read from disk that was read least recently, or since it was first seen.")
	logTruncated = counter("brokerd_log_truncated_bytes_total", "Bytes that were cut off the ends of logs.")
	logAppends   = counter("brokerd_log_appends_total", "Batches that were appended.")
	logRecords   = counter("brokerd_log_appended_messages_total", "Messages in the batches that were appended.")
	logAppended  = counter("brokerd_log_appended_bytes_total", "Bytes of the batches that were appended.")
	logSyncs     = counter("brokerd_log_fsyncs_total", "Syncs of logs to disk.")

	diskFree      = gauge("brokerd_disk_free_bytes", "Free space on the data disk.")
	diskSize      = gauge("brokerd_disk_total_bytes", "Size of the data disk.")
	diskReserved  = gauge("brokerd_disk_reserved_bytes", "Free space below which publishes are refused.")
	diskWatermark = gauge("brokerd_disk_watermark_state", "0: enough free space; 1: little; 2: publishes are refused.")

	raftIsLeader    = gauge("brokerd_raft_is_leader", "1 on the node that leads the metadata.")
	raftTerm        = gauge("brokerd_raft_term", "Term of the metadata's leader.")
	raftCommit      = gauge("brokerd_raft_commit_index", "Last metadata command that is committed.")
	raftApplied     = gauge("brokerd_raft_applied_index", "Last metadata command that this node has applied.")
	raftSnapshot    = gauge("brokerd_raft_snapshot_index", "Last metadata command in the newest snapshot.")
	raftVoters      = gauge("brokerd_raft_voters", "Nodes that vote on metadata.")
	raftTolerance   = gauge("brokerd_raft_failure_tolerance", "Voters that may fail yet before metadata cannot change; negative: so many are missing.")
	raftLastContact = gauge("brokerd_raft_last_contact_seconds", "Time since this node heard of the metadata's leader; -1: never.")
	raftStore       = gauge("brokerd_raft_store_bytes", "Size of the metadata's log on disk.")

	raftChanges = counter("brokerd_raft_leader_changes_total", "How often this node found another leader of the metadata.")
	raftLate    = gauge("brokerd_raft_late_seconds", "How late this process runs, or how slow its metadata's disk is: the second worst moment of the last half minute.")
	raftStalled = gauge("brokerd_raft_write_stalled_seconds", "For how long a write to the metadata's disk has been under way.")

	clusterNodes = gauge("brokerd_cluster_nodes", "Nodes of the cluster by their state, as this node sees it.", "state")

	replicaPartitions = gauge("brokerd_replica_partitions", "Partitions that this node leads and the peer follows.", "peer")
	replicaBehind     = gauge("brokerd_replica_partitions_behind", "Of those, partitions of which the peer lacks something.", "peer")
	replicaMessages   = gauge("brokerd_replica_lag_messages", "Messages that the peer lacks of the partitions that this node leads.", "peer")
	replicaBytes      = gauge("brokerd_replica_lag_bytes", "Bytes that the peer lacks of the partitions that this node leads.", "peer")
	replicaSeconds    = gauge("brokerd_replica_lag_seconds", "Longest time that the peer has been behind in one of them.", "peer")

	stalls = gauge("brokerd_stalled_partitions", "Partitions in which something has made no progress for seconds, by the code that the health has for it.", "code")

	uncommittedBytes  = gauge("brokerd_uncommitted_bytes", "Bytes that the partitions led by this node have taken and not committed.")
	uncommittedBudget = gauge("brokerd_uncommitted_budget_bytes", "Bytes that they may hold so.")
	uncommittedFull   = counter("brokerd_uncommitted_full_total", "Publishes that had to wait for that budget, or were refused.")

	memoryBudget  = gauge("brokerd_memory_budget_bytes", "Bytes that clients may make the node hold.")
	memoryUsed    = gauge("brokerd_memory_budget_used_bytes", "Bytes that they make it hold, by what they are.", "kind")
	memoryWaiting = gauge("brokerd_memory_budget_waiting", "Requests for memory that wait until others give back.")
	memoryWaited  = counter("brokerd_memory_budget_waited_total", "Requests for memory that had to wait.")
	memoryRefused = counter("brokerd_memory_budget_refused_total", "Requests for memory that were refused: their clients were told that the node is busy.")
	turnsWaiting  = gauge("brokerd_turns_waiting", "Connections that wait for their turn to have a processor for long.")
	uncreated     = counter("brokerd_creations_refused_total", "Topics and channels that were not created, since their client, or all, had created too many of late.")

	forwardPartitions = gauge("brokerd_forward_partitions", "Partitions to whose leaders publishes are on their way, or wait for one.")
	forwardBytes      = gauge("brokerd_forward_waiting_bytes", "Bytes of publishes that are on their way to a leader, or wait for one.")
	relayServed       = gauge("brokerd_relay_subscriptions", "Subscriptions here of clients that are connected to other nodes.")
	relays            = counter("brokerd_relay_subscriptions_begun_total", "Subscriptions at other nodes that were begun for clients here.")

	peerConnections = gauge("brokerd_peer_connections", "Connections with the peer that are up.", "peer", "class", "direction")
	peerBytes       = counter("brokerd_peer_bytes_total", "Bytes to and from the peer, with headers.", "peer", "class", "direction")
	peerCalls       = counter("brokerd_peer_calls_total", "Calls that were made to the peer.", "peer", "class")
	peerFailed      = counter("brokerd_peer_calls_failed_total", "Calls that were not sent or whose connection broke.", "peer", "class")
	peerConnects    = counter("brokerd_peer_connects_total", "Connections that were made to the peer.", "peer", "class")
	peerRoundTrip   = gauge("brokerd_peer_round_trip_seconds", "Time for a ping to the peer and back, of late.", "peer", "class")

	certificateEnd = gauge("brokerd_tls_certificate_not_after_timestamp_seconds", "When a TLS certificate in use ends.", "usage")
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
	if src.Logs != nil {
		out.logs(src.Logs())
	}
	if src.Disk != nil {
		out.disk(src.Disk())
	}
	if src.Raft != nil {
		out.raft(src.Raft())
	}
	if src.Nodes != nil {
		for state, n := range src.Nodes() {
			out.put(clusterNodes.is(float64(n), state))
		}
	}
	if src.Lags != nil {
		out.lags(src.Lags())
	}
	if src.Uncommitted != nil {
		used, limit, full := src.Uncommitted()
		out.put(uncommittedBytes.is(float64(used)), uncommittedBudget.is(float64(limit)), uncommittedFull.is(float64(full)))
	}
	if src.Memory != nil {
		out.memory(src.Memory())
	}
	if src.Turns != nil {
		out.put(turnsWaiting.is(float64(src.Turns())))
	}
	if src.Uncreated != nil {
		out.put(uncreated.is(float64(src.Uncreated())))
	}
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
	if src.Certificates != nil {
		for _, c := range src.Certificates() {
			out.put(certificateEnd.is(float64(c.NotAfter.Unix()), c.Usage))
		}
	}
}

// sink is where a scrape goes.
type sink chan<- prometheus.Metric

func (s sink) put(metrics ...prometheus.Metric) {
	for _, m := range metrics {
		s <- m
	}
}

func (s sink) topics(stats []broker.TopicStats, most int) {
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
		)
	}
	for _, c := range f.channels {
		s.put(
			channelDepth.is(float64(c.depth), c.topic, c.name),
			channelInFlight.is(float64(c.inFlight), c.topic, c.name),
			channelDeferred.is(float64(c.deferred), c.topic, c.name),
			channelConsumers.is(float64(c.consumers), c.topic, c.name),
			channelPaused.is(truth(c.paused), c.topic, c.name),
			channelOldest.is(c.oldest.Seconds(), c.topic, c.name),
			channelLag.is(float64(c.lag), c.topic, c.name),
			channelDelivered.is(float64(c.delivered), c.topic, c.name),
			channelFinished.is(float64(c.finished), c.topic, c.name),
			channelRequeued.is(float64(c.requeued), c.topic, c.name),
			channelTimedOut.is(float64(c.timeout), c.topic, c.name),
		)
	}
}

func (s sink) placement(p Placement) {
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
	for failure, n := range v.CommandErrors {
		s.put(commandErrors.is(float64(n), failure.Command, failure.Code))
	}
	for _, family := range []struct {
		metric metric
		values map[string]uint64
	}{
		{accepted, v.Accepted},
		{connectionErrors, v.ConnectionErrors},
		{commands, v.Commands},
		{authFailures, v.AuthFailures},
		{clientBytes, map[string]uint64{"in": v.BytesIn, "out": v.BytesOut}},
	} {
		for label, n := range family.values {
			s.put(family.metric.is(float64(n), label))
		}
	}
}

func (s sink) logs(l Logs) {
	s.put(
		logSegments.is(float64(l.Segments)),
		logBytes.is(float64(l.Bytes)),
		logUnflushed.is(float64(l.Unflushed)),
		logRecovery.is(l.Recovery.Seconds()),
		logCorrupt.is(float64(l.CorruptRecords)),
		logDamaged.is(float64(l.Damaged)),
		logScrubbed.is(float64(l.Scrubbed)),
		logUnchecked.is(l.ScrubOldest.Seconds()),
		logTruncated.is(float64(l.TruncatedBytes)),
		logAppends.is(float64(l.Appends)),
		logRecords.is(float64(l.Records)),
		logAppended.is(float64(l.AppendedBytes)),
		logSyncs.is(float64(l.Syncs)),
	)
}

func (s sink) disk(d Disk) {
	s.put(
		diskFree.is(float64(d.Free)),
		diskSize.is(float64(d.Total)),
		diskReserved.is(float64(d.Reserved)),
		diskWatermark.is(float64(d.Watermark)),
	)
}

func (s sink) raft(r Raft) {
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
		raftVoters.is(float64(r.Voters)),
		raftTolerance.is(float64(r.FailureTolerance)),
		raftLastContact.is(contact),
		raftStore.is(float64(r.StoreBytes)),
		raftStalled.is(r.Stalled.Seconds()),
		raftChanges.is(float64(r.LeaderChanges)),
		raftLate.is(r.Late.Seconds()),
	)
}

func (s sink) lags(all []broker.ReplicaLag) {
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
