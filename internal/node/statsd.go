package node

import (
	"github.com/brokerd/brokerd/internal/config"
	"github.com/brokerd/brokerd/pkg/admin/nsqd"
	"github.com/brokerd/brokerd/pkg/admin/nsqform"
	"github.com/brokerd/brokerd/pkg/stats"
)

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

// figures tells how statistics are put in the form of nsqd.
func figures(o *config.Options) nsqd.Figures {
	return nsqd.Figures{MemQueueSize: int64(o.Limits.MemQueueSize), Quantiles: o.Latency.Quantiles()}
}
