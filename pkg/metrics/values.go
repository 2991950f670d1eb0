package metrics

import (
	"math"

	"github.com/brokerd/brokerd/pkg/diskspace"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/operate"
)

// value is a metric and how it is read from a T.
type value[T any] struct {
	metric
	of func(*T) float64
}

// putAll exports all values of a T, except NaN: the T has no such value.
func putAll[T any](s sink, values []value[T], of *T, labels ...string) {
	for _, v := range values {
		if n := v.of(of); !math.IsNaN(n) {
			s.put(v.is(n, labels...))
		}
	}
}

// nodeMetrics are the metrics of a node that have no labels.
var nodeMetrics = []value[Values]{
	{gauge("brokerd_node_ready", "1 if the node is ready, as reported by /readyz."), func(v *Values) float64 { return truth(v.Ready) }},
	{gauge("brokerd_node_maintenance", "1 if the node is draining."), func(v *Values) float64 { return truth(v.Draining) }},
	{gauge("brokerd_clock_skew_seconds", "How far the node's wall clock is ahead of those of most nodes; negative: behind. 0 for a node that is alone."), func(v *Values) float64 { return v.Skew.Seconds() }},
	{counter("brokerd_scrub_bytes_total", "Log bytes scrubbed: read from disk to detect corruption."), func(v *Values) float64 { return float64(v.Scrubber.Bytes) }},
	{gauge("brokerd_scrub_oldest_seconds", "Time since the last full scrub of the least recently scrubbed replica on this node, or since it was first seen."), func(v *Values) float64 { return v.Scrubber.Oldest.Seconds() }},
	{gauge("brokerd_trash_topics", "Deleted topics that this node keeps on disk for topic restore."), func(v *Values) float64 { return float64(v.TrashTopics) }},
	{gauge("brokerd_trash_bytes", "Size of deleted topics on this node's disk at the time of their deletion."), func(v *Values) float64 { return float64(v.TrashBytes) }},
	{gauge("brokerd_raft_failure_tolerance", "Voters that may still fail before the metadata quorum is lost; negative: voters missing for a quorum."), func(v *Values) float64 { return float64(v.Tolerance) }},
	{gauge("brokerd_uncommitted_bytes", "Uncommitted bytes in partitions led by this node."), func(v *Values) float64 { return float64(v.Replication.Uncommitted) }},
	{gauge("brokerd_uncommitted_budget_bytes", "Limit of uncommitted bytes."), func(v *Values) float64 { return float64(v.Replication.UncommittedLimit) }},
	{counter("brokerd_uncommitted_full_total", "Publishes delayed or refused by the limit of uncommitted bytes."), func(v *Values) float64 { return float64(v.Replication.UncommittedFull) }},
	{gauge("brokerd_catch_up_rate_bytes", "Limit in bytes per second for copying to replicas that are not in sync; 0 while there are none."), func(v *Values) float64 { return float64(v.Replication.CatchUpRate) }},
	{gauge("brokerd_memory_budget_bytes", "Client memory budget."), func(v *Values) float64 { return float64(v.Memory.Limit) }},
	{gauge("brokerd_memory_budget_waiting", "Requests waiting for client memory."), func(v *Values) float64 { return float64(v.Memory.Waiting) }},
	{counter("brokerd_memory_budget_waited_total", "Requests that had to wait for client memory."), func(v *Values) float64 { return float64(v.Memory.Waited) }},
	{counter("brokerd_memory_budget_refused_total", "Requests refused as busy because the client memory budget was exhausted."), func(v *Values) float64 { return float64(v.Memory.Refused) }},
	{gauge("brokerd_turns_waiting", "Connections waiting for a CPU turn for long work."), func(v *Values) float64 { return float64(v.Turns) }},
	{counter("brokerd_creations_refused_total", "Topic and channel creations refused by the creation limit."), func(v *Values) float64 { return float64(v.Uncreated) }},
	{counter("brokerd_trace_events_total", "Trace events recorded."), func(v *Values) float64 { return float64(v.Traces.Events) }},
	{counter("brokerd_trace_lost_total", "Groups of trace events that could not be stored."), func(v *Values) float64 { return float64(v.Traces.Lost) }},
	{gauge("brokerd_trace_bytes", "Size of trace events on disk."), func(v *Values) float64 { return float64(v.Traces.Bytes) }},
	{gauge("brokerd_forward_partitions", "Forward queues with queued publishes."), func(v *Values) float64 { return float64(v.Forwarding.Partitions) }},
	{gauge("brokerd_forward_waiting_bytes", "Bytes of queued publishes in forward queues."), func(v *Values) float64 { return float64(v.Forwarding.Bytes) }},
	{gauge("brokerd_relay_subscriptions", "Subscriptions on this node for remote consumers, connected to other nodes."), func(v *Values) float64 { return float64(v.Forwarding.Served) }},
	{counter("brokerd_relay_subscriptions_begun_total", "Subscriptions relayed to other nodes for consumers connected to this node."), func(v *Values) float64 { return float64(v.Forwarding.Relays) }},
	{gauge("brokerd_connections_tls", "Open connections of proto tcp that use TLS."), func(v *Values) float64 { return float64(v.Server.OpenTLS) }},
	{gauge("brokerd_token_not_after_timestamp_seconds", "Time at which the next valid access token expires; +Inf if none expires."), func(v *Values) float64 { return moment(v.TokenEnds) }},
}

// topicMetrics are of a topic, or of several as one.
var topicMetrics = []value[topicSum]{
	{counter("brokerd_publish_messages_total", "Messages published and acknowledged.", "topic"), func(t *topicSum) float64 { return float64(t.messages) }},
	{counter("brokerd_publish_bytes_total", "Message body bytes published.", "topic"), func(t *topicSum) float64 { return float64(t.bytes) }},
	{gauge("brokerd_topic_bytes", "Log size of the topic on disk.", "topic"), func(t *topicSum) float64 { return float64(t.logBytes) }},
	{gauge("brokerd_topic_messages", "Messages in the topic's logs, including finished ones.", "topic"), func(t *topicSum) float64 { return float64(t.stored) }},
	{gauge("brokerd_topic_depth", "Messages of the topic that have not reached any channel.", "topic"), func(t *topicSum) float64 { return float64(t.depth) }},
	{gauge("brokerd_topic_paused", "1 if the topic is paused.", "topic"), func(t *topicSum) float64 { return truth(t.paused) }},
	{counter("brokerd_topic_duplicates_total", "Duplicate messages not stored, recognized by their dedup ids.", "topic"), func(t *topicSum) float64 { return float64(t.duplicates) }},
	{counter("brokerd_topic_full_refused_total", "Messages refused because the topic had reached max-bytes.", "topic"), func(t *topicSum) float64 { return float64(t.refused) }},
	{counter("brokerd_topic_full_dropped_total", "Messages dropped unfinished because their partition had reached max-bytes or retention-bytes.", "topic"), func(t *topicSum) float64 { return float64(t.expelled) }},
	{gauge("brokerd_topic_quota_used_ratio", "Used part of the topic's max-bytes, in its fullest partition; only for topics with max-bytes.", "topic"), func(t *topicSum) float64 { return unless(t.quota < 0, t.quota) }},
}

// channelMetrics are of a channel, or of several as one.
var channelMetrics = []value[channelSum]{
	{gauge("brokerd_channel_depth", "Messages waiting in the channel: neither in flight nor deferred.", "topic", "channel"), func(c *channelSum) float64 { return float64(c.Depth) }},
	{gauge("brokerd_channel_in_flight", "Messages delivered and not yet finished, requeued or timed out.", "topic", "channel"), func(c *channelSum) float64 { return float64(c.InFlight) }},
	{gauge("brokerd_channel_deferred", "Deferred messages that are not due yet.", "topic", "channel"), func(c *channelSum) float64 { return float64(c.Deferred) }},
	{gauge("brokerd_channel_consumers", "Subscriptions.", "topic", "channel"), func(c *channelSum) float64 { return float64(c.consumers) }},
	{gauge("brokerd_channel_ready_messages", "Sum of the RDY counts of the channel's consumers.", "topic", "channel"), func(c *channelSum) float64 { return float64(c.ready) }},
	{gauge("brokerd_channel_paused", "1 if the channel is paused.", "topic", "channel"), func(c *channelSum) float64 { return truth(c.paused) }},
	{gauge("brokerd_channel_oldest_message_age_seconds", "Age of the oldest unfinished message; 0 if there is none.", "topic", "channel"), func(c *channelSum) float64 { return c.oldest.Seconds() }},
	{gauge("brokerd_channel_spinning_messages", "Messages requeued immediately after delivery more than 100 times per second; at most ten per partition.", "topic", "channel"), func(c *channelSum) float64 { return float64(c.spinning) }},
	{gauge("brokerd_channel_lag_messages", "Committed end minus confirmed position, summed over partitions.", "topic", "channel"), func(c *channelSum) float64 { return float64(c.lag) }},
	{counter("brokerd_channel_delivered_total", "Deliveries.", "topic", "channel"), func(c *channelSum) float64 { return float64(c.DeliveredTotal) }},
	{counter("brokerd_channel_finished_total", "Messages finished.", "topic", "channel"), func(c *channelSum) float64 { return float64(c.FinishedTotal) }},
	{counter("brokerd_channel_requeued_total", "Messages requeued by consumers.", "topic", "channel"), func(c *channelSum) float64 { return float64(c.RequeuedTotal) }},
	{counter("brokerd_channel_timed_out_total", "Deliveries that timed out.", "topic", "channel"), func(c *channelSum) float64 { return float64(c.TimedOutTotal) }},
	{counter("brokerd_channel_expired_total", "Messages dropped or dead-lettered instead of delivered because their time to live had expired.", "topic", "channel"), func(c *channelSum) float64 { return float64(c.ExpiredTotal) }},
	{counter("brokerd_channel_filtered_total", "Messages finished without delivery because the channel's filter did not select them.", "topic", "channel"), func(c *channelSum) float64 { return float64(c.FilteredTotal) }},
	{counter("brokerd_channel_filter_errors_total", "Filtered messages on which the evaluation of the filter failed.", "topic", "channel"), func(c *channelSum) float64 { return float64(c.FilterErrorsTotal) }},
	{gauge("brokerd_channel_exhausted_messages", "Messages that used up their attempts and are still in the channel.", "topic", "channel"), func(c *channelSum) float64 { return float64(c.Exhausted) }},
	{gauge("brokerd_channel_blocked_partitions", "Partitions blocked by a message that used up its attempts (on-exhausted block).", "topic", "channel"), func(c *channelSum) float64 { return float64(c.blocked) }},
	{gauge("brokerd_channel_backing_off_messages", "Messages waiting for the channel's backoff.", "topic", "channel"), func(c *channelSum) float64 { return float64(c.BackingOff) }},
	{gauge("brokerd_channel_rate_limited", "1 if delivery is limited by the channel's rate.", "topic", "channel"), func(c *channelSum) float64 { return truth(c.RateLimited) }},
	{counter("brokerd_channel_throttled_seconds_total", "Time that consumers waited because of the channel's rate limit.", "topic", "channel"), func(c *channelSum) float64 { return c.throttled.Seconds() }},
	{counter("brokerd_channel_backed_off_total", "Redeliveries delayed by the channel's backoff.", "topic", "channel"), func(c *channelSum) float64 { return float64(c.BackedOffTotal) }},
	{counter("brokerd_channel_dead_lettered_total", "Messages moved to the dead-letter topic.", "topic", "channel"), func(c *channelSum) float64 { return float64(c.DeadLetteredTotal) }},
	{counter("brokerd_channel_dropped_total", "Messages dropped after their last attempt.", "topic", "channel"), func(c *channelSum) float64 { return float64(c.DroppedTotal) }},
}

// placementMetrics are of the cluster's partitions.
var placementMetrics = []value[operate.Placement]{
	{gauge("brokerd_cluster_partitions", "Partitions in the cluster, as seen by this node."), func(p *operate.Placement) float64 { return float64(p.Partitions) }},
	{gauge("brokerd_cluster_partitions_offline", "Partitions without a leader."), func(p *operate.Placement) float64 { return float64(p.Offline) }},
	{gauge("brokerd_cluster_partitions_under_replicated", "Partitions with an out-of-sync replica."), func(p *operate.Placement) float64 { return float64(p.UnderReplicated) }},
	{gauge("brokerd_cluster_partitions_under_min_isr", "Partitions below min_isr, which refuse publishes."), func(p *operate.Placement) float64 { return float64(p.UnderMinISR) }},
	{gauge("brokerd_cluster_partitions_non_preferred_leader", "Partitions not led by their preferred replica."), func(p *operate.Placement) float64 { return float64(p.NonPreferredLeader) }},
	{gauge("brokerd_cluster_partitions_moving", "Partitions with a reassignment in progress."), func(p *operate.Placement) float64 { return float64(p.Moving) }},
	{gauge("brokerd_node_partitions", "Partitions with a replica on this node."), func(p *operate.Placement) float64 { return float64(p.Hosted) }},
	{gauge("brokerd_node_leaders", "Partitions led by this node."), func(p *operate.Placement) float64 { return float64(p.Led) }},
}

// logMetrics are of the node's logs.
var logMetrics = []value[host.LogStats]{
	{gauge("brokerd_log_segments", "Log segments on this node."), func(l *host.LogStats) float64 { return float64(l.Segments) }},
	{gauge("brokerd_log_bytes", "Log size on this node."), func(l *host.LogStats) float64 { return float64(l.Bytes) }},
	{gauge("brokerd_log_unflushed_messages", "Messages appended but not yet synced; 0 with sync=always."), func(l *host.LogStats) float64 { return float64(l.Unsynced) }},
	{gauge("brokerd_log_recovery_seconds", "Time spent opening logs at startup."), func(l *host.LogStats) float64 { return l.Recovery.Seconds() }},
	{counter("brokerd_log_corrupt_records_total", "Corrupt record ranges found since startup."), func(l *host.LogStats) float64 { return float64(l.Damaged) }},
	{gauge("brokerd_log_damaged_ranges", "Corrupt record ranges currently in the logs on this node; cleared when repaired from another replica."), func(l *host.LogStats) float64 { return float64(l.Unreadable) }},
	{counter("brokerd_log_truncated_bytes_total", "Bytes truncated from log ends."), func(l *host.LogStats) float64 { return float64(l.TornBytes) }},
	{counter("brokerd_log_appends_total", "Batches appended."), func(l *host.LogStats) float64 { return float64(l.Appends) }},
	{counter("brokerd_log_appended_messages_total", "Messages in appended batches."), func(l *host.LogStats) float64 { return float64(l.Records) }},
	{counter("brokerd_log_appended_bytes_total", "Bytes of appended batches."), func(l *host.LogStats) float64 { return float64(l.AppendedBytes) }},
	{counter("brokerd_log_fsyncs_total", "Log syncs to disk."), func(l *host.LogStats) float64 { return float64(l.Syncs) }},
}

// diskMetrics are of the data disk.
var diskMetrics = []value[diskspace.State]{
	{gauge("brokerd_disk_free_bytes", "Free space on the data disk."), func(d *diskspace.State) float64 { return float64(d.Free) }},
	{gauge("brokerd_disk_total_bytes", "Size of the data disk."), func(d *diskspace.State) float64 { return float64(d.Total) }},
	{gauge("brokerd_disk_reserved_bytes", "Free disk space below which publishes are refused."), func(d *diskspace.State) float64 { return float64(d.Reserve) }},
	{gauge("brokerd_disk_watermark_state", "Disk level: 0 enough free space, 1 low, 2 publishes refused."), watermark},
}

// raftMetrics are of the metadata.
var raftMetrics = []value[raftstore.Stats]{
	{gauge("brokerd_raft_is_leader", "1 on the metadata leader."), func(r *raftstore.Stats) float64 { return truth(r.IsLeader) }},
	{gauge("brokerd_raft_term", "Raft term of the metadata."), func(r *raftstore.Stats) float64 { return float64(r.Term) }},
	{gauge("brokerd_raft_commit_index", "Index of the last committed metadata command."), func(r *raftstore.Stats) float64 { return float64(r.CommitIndex) }},
	{gauge("brokerd_raft_applied_index", "Index of the last metadata command applied on this node."), func(r *raftstore.Stats) float64 { return float64(r.AppliedIndex) }},
	{gauge("brokerd_raft_snapshot_index", "Index of the last metadata command in the newest snapshot."), func(r *raftstore.Stats) float64 { return float64(r.SnapshotIndex) }},
	{gauge("brokerd_raft_voters", "Metadata voters."), func(r *raftstore.Stats) float64 { return float64(len(r.Voters)) }},
	{gauge("brokerd_raft_last_contact_seconds", "Time since the last contact with the metadata leader; -1 if never."), contact},
	{gauge("brokerd_raft_store_bytes", "Metadata log size on disk."), func(r *raftstore.Stats) float64 { return float64(r.StoreBytes) }},
	{gauge("brokerd_raft_store_free_bytes", "Bytes of the metadata log in unused pages, which are reused, and freed at the next start."), func(r *raftstore.Stats) float64 { return float64(r.StoreFree) }},
	{gauge("brokerd_raft_write_stalled_seconds", "Duration of the write to the metadata disk in progress; 0 if none."), func(r *raftstore.Stats) float64 { return r.Stalled.Seconds() }},
	{counter("brokerd_raft_leader_changes_total", "Metadata leader changes observed by this node."), func(r *raftstore.Stats) float64 { return float64(r.LeaderChanges) }},
	{counter("brokerd_raft_elections_total", "Metadata elections in which this node was a candidate."), func(r *raftstore.Stats) float64 { return float64(r.Elections) }},
	{gauge("brokerd_raft_late_seconds", "Scheduling delay of this process or write latency of its metadata disk: second-worst sample of the last 30 s."), func(r *raftstore.Stats) float64 { return r.Late.Seconds() }},
}

// lagMetrics are of the partitions that another node follows.
var lagMetrics = []value[replicaLag]{
	{gauge("brokerd_replica_partitions", "Partitions led by this node that the peer follows.", "peer"), func(l *replicaLag) float64 { return float64(l.partitions) }},
	{gauge("brokerd_replica_partitions_behind", "Partitions led by this node in which the peer is behind.", "peer"), func(l *replicaLag) float64 { return float64(l.behind) }},
	{gauge("brokerd_replica_lag_messages", "Replication lag of the peer, in messages, over partitions led by this node.", "peer"), func(l *replicaLag) float64 { return float64(l.messages) }},
	{gauge("brokerd_replica_lag_bytes", "Replication lag of the peer, in bytes, over partitions led by this node.", "peer"), func(l *replicaLag) float64 { return float64(l.bytes) }},
	{gauge("brokerd_replica_lag_seconds", "Longest time the peer has been behind in any of those partitions.", "peer"), func(l *replicaLag) float64 { return l.longest.Seconds() }},
}
