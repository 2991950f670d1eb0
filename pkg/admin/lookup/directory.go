package lookup

import (
	"cmp"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/admin/nsqform"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
)

// lookupAnswer is the JSON of /lookup. Partitions and Meta are for clients that
// know partitions.
type lookupAnswer struct {
	Channels   []string                    `json:"channels"`
	Producers  []nsqform.Producer          `json:"producers"`
	Partitions map[string]nsqform.Producer `json:"partitions"`
	Meta       *lookupMeta                 `json:"meta,omitempty"`
}

type lookupMeta struct {
	Partitions        int  `json:"partition_num"`
	Replicas          int  `json:"replica"`
	Ext               bool `json:"extend_support"`
	Ordered           bool `json:"ordered"`
	MultiPart         bool `json:"multi_part"`
	NoChannelCreation bool `json:"disable_channel_auto_create"`
}

func metaOf(c meta.TopicConfig) *lookupMeta {
	return &lookupMeta{Partitions: c.Partitions, Replicas: c.Replicas, Ext: c.Ext, Ordered: c.Ordered}
}

// lookupNode is a node of /nodes. Tombstones[i] belongs to Topics[i].
type lookupNode struct {
	nsqform.Producer
	Tombstones []bool              `json:"tombstones"`
	Topics     []string            `json:"topics"`
	Partitions map[string][]string `json:"partitions"` // led here, by topic
}

// directory answers for a lookup: the nodes and topics of one moment.
type directory struct {
	nodes  map[string]api.Node
	id     nsqform.Identity // of the node that answers
	self   string
	hidden *nsqform.Recently
	now    time.Time
}

// producer describes a node as it advertises itself.
func (d *directory) producer(n api.Node) nsqform.Producer {
	host, tcpPort := splitAddress(n.TCPAddress)
	_, httpPort := splitAddress(n.HTTPAddress)
	p := nsqform.Producer{
		RemoteAddress:    n.TCPAddress,
		Hostname:         cmp.Or(n.Hostname, n.ID),
		BroadcastAddress: host,
		TCPPort:          tcpPort,
		HTTPPort:         httpPort,
		// The version reported to clients is that of the compatible nsqlookupd, the same on every
		// node.
		Version:      cmp.Or(d.id.Version, n.Version),
		TopologyZone: n.Zone,
	}
	if n.ID == d.self {
		p.Hostname = cmp.Or(d.id.Hostname, p.Hostname)
		p.TopologyRegion = d.id.Region
	}
	return p
}

// leads reports whether a node should be found as the leader of a partition.
func (d *directory) leads(id meta.NodeID) (api.Node, bool) {
	n, ok := d.nodes[string(id)]
	return n, ok && n.State != api.NodeDown
}

// lookup answers for a topic: every node that leads at least one of its
// partitions, once, and the leader of each partition. A partition other than
// AnyPartition restricts it to that one.
func (d *directory) lookup(t *meta.Topic, partition int, channels []string) lookupAnswer {
	a := lookupAnswer{Channels: channels, Producers: []nsqform.Producer{}, Partitions: map[string]nsqform.Producer{}}
	found := map[string]bool{}
	for i, p := range t.Partitions {
		n, ok := d.leads(p.Leader)
		if !ok || partition != host.AnyPartition && partition != i {
			continue
		}
		if n, ok = d.shown(t.Name, n, &p); !ok {
			continue
		}
		producer := d.producer(n)
		a.Partitions[strconv.Itoa(i)] = producer
		if !found[n.ID] {
			found[n.ID] = true
			a.Producers = append(a.Producers, producer)
		}
	}
	return a
}

// shown returns the leader of a partition or, if it has a tombstone, another node that serves in
// its place: an in-sync replica, else any replica, else any node, since each accepts publishes and
// serves consumers for the leader. It returns false if all nodes have tombstones.
func (d *directory) shown(topic string, leader api.Node, p *meta.Partition) (api.Node, bool) {
	if !d.isHidden(topic, leader) {
		return leader, true
	}
	others := slices.Concat(p.ISR, p.Replicas)
	for _, id := range slices.Sorted(maps.Keys(d.nodes)) {
		others = append(others, meta.NodeID(id))
	}
	for _, id := range others {
		if n, ok := d.leads(id); ok && !d.isHidden(topic, n) {
			return n, true
		}
	}
	return api.Node{}, false
}

// isHidden reports whether a node has a tombstone for a topic.
func (d *directory) isHidden(topic string, n api.Node) bool {
	p := d.producer(n)
	return d.hidden.Has(topic, p.HTTP(), d.now)
}

// list answers for all nodes that are not down: with the topics that each
// leads a partition of.
func (d *directory) list(topics []*meta.Topic) []lookupNode {
	byID := map[string]*lookupNode{}
	for id, n := range d.nodes {
		if n.State != api.NodeDown {
			byID[id] = &lookupNode{Producer: d.producer(n), Tombstones: []bool{}, Topics: []string{}, Partitions: map[string][]string{}}
		}
	}
	for _, t := range topics {
		for i, p := range t.Partitions {
			n, ok := byID[string(p.Leader)]
			if !ok {
				continue
			}
			if n.Partitions[t.Name] == nil {
				n.Topics = append(n.Topics, t.Name)
				n.Tombstones = append(n.Tombstones, d.hidden.Has(t.Name, n.HTTP(), d.now))
			}
			n.Partitions[t.Name] = append(n.Partitions[t.Name], strconv.Itoa(i))
		}
	}
	list := make([]lookupNode, 0, len(byID))
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		list = append(list, *byID[id])
	}
	return list
}

// lookupPeer is a lookup address of the cluster. Its ports are strings for the
// clients that read them so.
type lookupPeer struct {
	ID       string
	NodeIP   string
	TCPPort  string `json:"TcpPort"`
	HTTPPort string `json:"HttpPort"`
	RPCPort  string `json:"RpcPort"`
	Epoch    uint64
}

// peers lists the addresses for lookups: the HTTP address of every node.
func (d *directory) peers() []lookupPeer {
	list := []lookupPeer{}
	for _, id := range slices.Sorted(maps.Keys(d.nodes)) {
		n := d.nodes[id]
		if n.State == api.NodeDown {
			continue
		}
		host, httpPort := splitAddress(n.HTTPAddress)
		_, rpcPort := splitAddress(n.ClusterAddress)
		list = append(list, lookupPeer{
			ID:       n.ID,
			NodeIP:   host,
			TCPPort:  "0", // nodes of a cluster do not register with a lookup
			HTTPPort: strconv.Itoa(httpPort),
			RPCPort:  strconv.Itoa(rpcPort),
			Epoch:    n.Incarnation,
		})
	}
	return list
}

// splitAddress returns the host and port of an address. The port of one that
// has none, such as a unix socket, is -1.
func splitAddress(address string) (host string, port int) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return address, -1
	}
	if port, err = strconv.Atoi(text); err != nil {
		return host, -1
	}
	return host, port
}
