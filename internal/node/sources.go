package node

import (
	"cmp"
	"slices"
	"time"

	"github.com/brokerd/brokerd/internal/build"
	"github.com/brokerd/brokerd/internal/config"
	"github.com/brokerd/brokerd/pkg/admin/nsqd"
	"github.com/brokerd/brokerd/pkg/admin/nsqform"
	"github.com/brokerd/brokerd/pkg/broker"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/metrics"
	"github.com/brokerd/brokerd/pkg/stats"
)

// newMetrics creates the node's metrics. Their sources need not be open yet: they are read at each
// scrape.
func (n *Node) newMetrics() *metrics.Metrics {
	o := &n.c.Options
	return metrics.New(metrics.Options{
		Version: build.Version(), Revision: cmp.Or(build.This().Commit, "unknown"), Node: o.NodeID, Zone: o.Zone, Started: n.startedAt,
		MaxObjects: o.Process.MetricsObjects,
		Read:       n.values,
		Detail: func(q metrics.Question) metrics.Detail {
			d := metrics.Detail{Topics: n.broker.Node.TopicStats("", "", q.Clients)}
			if q.Followers {
				d.Followers = slices.Collect(n.broker.Operator.Followers)
			}
			return d
		},
	})
}

// values returns what the metrics show of the node.
func (n *Node) values() metrics.Values {
	b, m := n.broker, n.member
	v := metrics.Values{
		Topics: b.Node.TopicStats("", "", false), Ready: len(b.Node.Ready()) == 0, Draining: n.draining.Load(), Placement: b.Contents.Placement(),
		Server: n.server.Stats(), Unauthorized: n.refused.Load(), Logs: b.Host.Topics.LogStats(), Scrubber: b.Host.Scrubber.Stats(),
		TokenEnds: meta.AccessOf(m.Store().View()).FirstEnd(time.Now()), Disk: b.Host.Disk.State(), Raft: m.Store().Stats(),
		Tolerance: b.Operator.Tolerance(), Nodes: nodesByState(b), Followers: slices.Collect(b.Operator.Followers), Replication: b.Host.ReplicationStats(),
		Memory: n.memory.Usage(), Turns: n.turns.Waiting(), Uncreated: n.created.Refused(), Traces: n.tracing.store.Stats(), Spans: n.tracing.spans.Stats(),
		Stalls: b.Host.Stalls.Counts(time.Now()), Peers: m.Traffic(), Forwarding: b.Calls.ForwardStats(),
	}
	v.Skew = m.Clock().Skew(time.Now())
	v.TrashTopics, v.TrashBytes = b.Host.Trash()
	if n.c.Certificates != nil {
		v.Certificates = n.c.Certificates()
	}
	return v
}

// endsOf returns the certificates that the process shows to others, as the health reports them. nil: TLS is off.
func endsOf(certificates func() []metrics.Certificate) (all []health.Certificate) {
	if certificates != nil {
		for _, c := range certificates() {
			all = append(all, health.Certificate{Usage: c.Usage, Ends: c.NotAfter})
		}
	}
	return all
}

// nodesByState counts the nodes in each state, none included.
func nodesByState(b *broker.Broker) map[string]int {
	counts := map[string]int{string(meta.NodeUp): 0, string(meta.NodeDown): 0, string(meta.NodeDraining): 0}
	for _, x := range b.Operator.Cluster().Nodes {
		counts[string(x.State)]++
	}
	return counts
}

// statsd returns what pushes the node's statistics; nil: nothing does.
func (n *Node) statsd() *nsqd.Statsd {
	o, a := &n.c.Options.Statsd, n.c.Advertise
	if o.Address == "" {
		return nil
	}
	return nsqd.NewStatsd(nsqd.StatsdOptions{
		Address: o.Address, Prefix: o.Prefix, Interval: o.Interval, Memory: o.MemStats, PacketSize: int(o.PacketSize),
		Figures: figures(&n.c.Options), NoEphemeral: o.ExcludeEphemeral, Logger: n.c.Log,
		Identity: nsqform.Identity{BroadcastAddress: HostOf(a.TCP, a.Host), HTTPPort: PortOf(a.HTTP)},
		Topics:   func() []stats.Topic { return n.broker.Node.TopicStats("", "", false) },
	})
}

// figures returns how statistics are presented in nsqd's format.
func figures(o *config.Options) nsqd.Figures {
	return nsqd.Figures{MemQueueSize: int64(o.Limits.MemQueueSize), Quantiles: o.Latency.Quantiles()}
}
