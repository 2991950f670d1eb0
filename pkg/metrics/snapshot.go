package metrics

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/brokerd/brokerd/pkg/diskspace"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/nsq"
	"github.com/brokerd/brokerd/pkg/otlp"
	"github.com/brokerd/brokerd/pkg/peer"
	"github.com/brokerd/brokerd/pkg/server"
	"github.com/brokerd/brokerd/pkg/stats"
)

// metric is a metric whose value is read at each scrape.
type metric struct {
	desc       *prometheus.Desc
	kind       prometheus.ValueType
	name, help string
	labels     []string
}

func newMetric(kind prometheus.ValueType, name, help string, labels []string) metric {
	return metric{prometheus.NewDesc(name, help, labels, nil), kind, name, help, labels}
}

func gauge(name, help string, labels ...string) metric {
	return newMetric(prometheus.GaugeValue, name, help, labels)
}

func counter(name, help string, labels ...string) metric {
	return newMetric(prometheus.CounterValue, name, help, labels)
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

// The metrics with labels, and summaries.
var (
	objectsDropped     = gauge("brokerd_metrics_objects_dropped", "Topics and channels above the series limit, aggregated under the name _other.")
	connections        = gauge("brokerd_connections", "Open connections.", "proto", "role")
	accepted           = counter("brokerd_connections_total", "Connections accepted.", "proto")
	connectionErrors   = counter("brokerd_connection_errors_total", "Connections closed because of an error.", "reason")
	clientBytes        = counter("brokerd_client_bytes_total", "Bytes exchanged with clients.", "direction")
	commands           = counter("brokerd_commands_total", "Client commands.", "command")
	commandErrors      = counter("brokerd_command_errors_total", "Client commands answered with an error.", "code")
	authFailures       = counter("brokerd_auth_failures_total", "Failed client authentications and authorizations.", "protocol")
	raftApplies        = timing("brokerd_raft_apply_duration_seconds", "Time to apply a batch of metadata commands to the state on this node.")
	raftWrites         = timing("brokerd_raft_write_duration_seconds", "Time to write to the metadata log on this node, including the sync.")
	clusterNodes       = gauge("brokerd_cluster_nodes", "Cluster nodes by state, as seen by this node.", "state")
	stalls             = gauge("brokerd_stalled_partitions", "Partitions with a stalled operation, by health reason code.", "code")
	memoryUsed         = gauge("brokerd_memory_budget_used_bytes", "Client memory in use, by kind.", "kind")
	spansSent          = counter("brokerd_otlp_spans_sent_total", "Spans that the OpenTelemetry collector took.")
	spansDropped       = counter("brokerd_otlp_spans_dropped_total", "Spans that were dropped: rejected by the collector, unsent since it did not take them in time, or missed since the node was busy (counted by event).", "reason")
	spansWaiting       = gauge("brokerd_otlp_spans_waiting", "Spans waiting for the OpenTelemetry collector.")
	peerConnections    = gauge("brokerd_peer_connections", "Open connections to the peer.", "peer", "class", "direction")
	peerBytes          = counter("brokerd_peer_bytes_total", "Bytes exchanged with the peer, including headers.", "peer", "class", "direction")
	peerCalls          = counter("brokerd_peer_calls_total", "Cluster calls to the peer.", "peer", "class")
	peerFailed         = counter("brokerd_peer_calls_failed_total", "Cluster calls that were not sent or lost their connection.", "peer", "class")
	peerConnects       = counter("brokerd_peer_connects_total", "Connections established to the peer.", "peer", "class")
	peerRoundTrip      = gauge("brokerd_peer_round_trip_seconds", "Recent round-trip time to the peer.", "peer", "class")
	certificateReloads = counter("brokerd_tls_reload_total", "Reloads of certificate files, by result; after a failure the old certificate stays in use.", "usage", "result")
	certificateEnd     = gauge("brokerd_tls_certificate_not_after_timestamp_seconds", "Expiry time of the TLS certificate in use.", "usage")
)

// snapshot reads the values of a node at each scrape.
type snapshot struct {
	read       func() Values
	maxObjects int
}

// Describe implements prometheus.Collector. It describes nothing, because the
// metrics depend on the values.
func (*snapshot) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (s *snapshot) Collect(to chan<- prometheus.Metric) {
	out, v := sink(to), s.read()
	putAll(out, nodeMetrics, &v)
	putAll(out, placementMetrics, &v.Placement)
	putAll(out, logMetrics, &v.Logs)
	putAll(out, diskMetrics, &v.Disk)
	putAll(out, raftMetrics, &v.Raft)
	out.put(raftApplies.is(v.Raft.Applies), raftWrites.is(v.Raft.Writes))
	for node, lag := range lags(v.Followers) {
		putAll(out, lagMetrics, lag, node)
	}
	for state, n := range v.Nodes {
		out.put(clusterNodes.is(float64(n), state))
	}
	for code, n := range v.Stalls {
		out.put(stalls.is(float64(n), code))
	}
	for use := range limit.UseCount {
		out.put(memoryUsed.is(float64(v.Memory.Uses[use]), use.String()))
	}
	out.topics(v.Topics, s.maxObjects)
	out.server(&v)
	out.spans(v.Spans)
	out.peers(v.Peers)
	out.certificates(v.Certificates)
}

// sink receives the metrics of a scrape.
type sink chan<- prometheus.Metric

func (s sink) put(metrics ...prometheus.Metric) {
	for _, m := range metrics {
		s <- m
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
	}
	for _, c := range f.channels {
		putAll(s, channelMetrics, c, c.topic, c.name)
	}
}

// server exports the connections and commands of clients, and the connections to other nodes.
func (s sink) server(v *Values) {
	nodes, n := 0, &v.Server
	for i := range v.Peers {
		nodes += v.Peers[i].Connected
	}
	s.put(
		connections.is(float64(n.OpenConsumers), "tcp", "consumer"), connections.is(float64(n.Open-n.OpenConsumers), "tcp", "producer"),
		connections.is(float64(nodes), "cluster", "peer"), accepted.is(float64(n.Connections), "tcp"),
		clientBytes.is(float64(n.BytesIn), "in"), clientBytes.is(float64(n.BytesOut), "out"),
		authFailures.is(float64(n.AuthFailures), "tcp"), authFailures.is(float64(v.Unauthorized), "http"),
	)
	for e := range server.EndingCount {
		s.put(connectionErrors.is(float64(n.Ended[e]), e.String()))
	}
	for verb := range nsq.VerbCount {
		s.put(commands.is(float64(n.Commands[verb]), verb.String()))
	}
	for c := failure.NoWire + 1; c < failure.WireCount; c++ {
		s.put(commandErrors.is(float64(n.Errors[c]), c.String()))
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
