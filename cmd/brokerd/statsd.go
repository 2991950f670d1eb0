package main

import (
	"github.com/brokerd/brokerd/pkg/admin/nsqd"
	"github.com/brokerd/brokerd/pkg/admin/nsqform"
	"github.com/brokerd/brokerd/pkg/broker"
)

// statsd returns what pushes the node's statistics; nil: nothing does.
func (n *brokerNode) statsd() *nsqd.Statsd {
	o, a := &n.c.Options.Statsd, n.c.Advertise
	if o.Address == "" {
		return nil
	}
	return nsqd.NewStatsd(nsqd.StatsdOptions{
		Address: o.Address, Prefix: o.Prefix, Interval: o.Interval, Memory: o.MemStats, PacketSize: int(o.PacketSize),
		MemQueueSize: nsqd.MemQueueSize(n.c.Options.Limits.MemQueueSize), NoEphemeral: o.ExcludeEphemeral, Logger: n.c.Log,
		Identity: nsqform.Identity{BroadcastAddress: hostOf(a.TCP, a.Host), HTTPPort: portOf(a.HTTP)},
		Topics:   func() []broker.TopicStats { return n.broker.TopicStats("", "", false) },
	})
}
