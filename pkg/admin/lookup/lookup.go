package lookup

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/admin/nsqform"
	"github.com/brokerd/brokerd/pkg/meta"
)

// tombstonedFor is how long /lookup leaves a tombstoned node out.
const tombstonedFor = 45 * time.Second

// Broker is the part of a node that this package uses. All methods are required and safe for
// concurrent use.
type Broker struct {
	Directory
	ChannelDeleter
	nsqform.Node
	nsqform.Deletions
	nsqform.ClusterReader
}

// Directory knows the topics of the cluster, and changes them.
type Directory interface {
	nsqform.TopicMaker
	Topics() []*meta.Topic
	MadeOnFirstUse() (meta.TopicConfig, bool)
	DeleteTopic(ctx context.Context, name string) error
	CreateChannel(ctx context.Context, topic, channel string, ordered bool) error
}

// ChannelDeleter deletes channels.
type ChannelDeleter interface {
	DeleteChannel(ctx context.Context, topic, channel string) error
}

// Lookup answers like nsqlookupd, from the cluster's metadata. Create one with New.
type Lookup struct {
	names   nsqform.Catalog
	broker  Broker
	id      nsqform.Identity
	deleted *nsqform.Recently // names that were deleted here
	hidden  *nsqform.Recently // tombstones: topics and the nodes that /lookup leaves out of them
}

// New returns the lookup of a node.
func New(b Broker, id nsqform.Identity) *Lookup {
	return &Lookup{
		names: nsqform.Catalog{Broker: nsqform.Broker{TopicMaker: b.Directory, Node: b.Node}}, broker: b, id: id,
		deleted: nsqform.NewRecently(nsqform.DeletedFor), hidden: nsqform.NewRecently(tombstonedFor),
	}
}

// HasDeleted reports whether a topic, or with a name a channel, was deleted here recently.
func (s *Lookup) HasDeleted(topic, channel string, now time.Time) bool {
	return s.deleted.Has(topic, channel, now)
}

// RouteReads adds the read-only endpoints, on both addresses.
func (s *Lookup) RouteReads(t *nsqform.Router) {
	t.Add(http.MethodGet, "/lookup", s.lookup)
	t.Add(http.MethodGet, "/topics", s.topics)
	t.Add(http.MethodGet, "/channels", s.listChannels)
	t.Add(http.MethodGet, "/nodes", s.listNodes)
	t.Add(http.MethodGet, "/listlookup", s.listPeers)
}

// RouteWrites adds the other endpoints of nsqlookupd, whose names have another meaning on the HTTP
// address.
func (s *Lookup) RouteWrites(t *nsqform.Router) {
	t.Add(http.MethodGet, "/debug", s.registrations)
	t.Add(http.MethodPost, "/topic/create", s.names.CreateTopic("INVALID_ARG_TOPIC"))
	t.Add(http.MethodPost, "/topic/delete", s.deleteTopic)
	t.Add(http.MethodPost, "/topic/tombstone", s.tombstone)
	t.Add(http.MethodPost, "/channel/create", s.createChannel)
	t.Add(http.MethodPost, "/channel/delete", s.deleteChannel)
	t.Plain(http.MethodGet, "/ping", nsqform.Ping(s.broker.Ready))
	t.Add(http.MethodGet, "/info", s.info)
}

// directory is the cluster of this moment.
func (s *Lookup) directory() *directory {
	info := s.broker.Cluster()
	d := &directory{
		nodes:  make(map[string]api.Node, len(info.Nodes)),
		id:     s.id,
		self:   info.Self,
		hidden: s.hidden,
		now:    time.Now(),
	}
	for _, n := range info.Nodes {
		d.nodes[n.ID] = n
	}
	return d
}

// TombstonedHere reports whether a topic has a tombstone on this node, of those
// that were set here.
func (s *Lookup) TombstonedHere(topic string, now time.Time) bool {
	d := s.directory()
	p := d.producer(d.nodes[d.self])
	return s.hidden.Has(topic, p.HTTP(), now)
}

// lookup returns the nodes of a topic. A publisher that asks for a missing topic is referred to
// this node, if topics are created on first use: its publish creates the topic.
func (s *Lookup) lookup(r *http.Request) (any, error) {
	p, err := nsqform.ReadParams(r)
	if err != nil {
		return nil, err
	}
	name, err := p.Needed("topic", "MISSING_ARG_TOPIC")
	if err != nil {
		return nil, err
	}
	access, _ := p.Lookup("access")
	switch access {
	case "", "r", "w":
	default:
		return nil, nsqform.Refuse("INVALID_ACCESS_MODE")
	}
	if _, err := p.Partition(); err != nil {
		return nil, err
	}
	t, err := s.names.Topic(name)
	if err != nil && access == "w" && meta.ValidTopicName(name) {
		if config, made := s.broker.MadeOnFirstUse(); made {
			return s.lookupNew(p, config)
		}
	}
	if err != nil {
		return nil, err
	}
	partition, err := p.PartitionOf(t)
	if err != nil {
		return nil, err
	}
	a := s.directory().lookup(t, partition, s.names.Channels(t))
	if info, _ := p.Lookup("metainfo"); info != "" {
		a.Meta = metaOf(t.Config)
	}
	return a, nil
}

// lookupNew answers for a topic that a publish would create: this node accepts it, for any
// partition.
func (s *Lookup) lookupNew(p nsqform.Params, config meta.TopicConfig) (any, error) {
	d := s.directory()
	t := &meta.Topic{Config: config, Partitions: make([]meta.Partition, config.Partitions)}
	for i := range t.Partitions {
		t.Partitions[i].Leader = meta.NodeID(d.self)
	}
	partition, err := p.PartitionOf(t)
	if err != nil {
		return nil, err
	}
	a := d.lookup(t, partition, []string{})
	if info, _ := p.Lookup("metainfo"); info != "" {
		a.Meta = metaOf(config)
	}
	return a, nil
}

// topics answers the names of all topics.
func (s *Lookup) topics(r *http.Request) (any, error) {
	p, err := nsqform.ReadParams(r)
	if err != nil {
		return nil, err
	}
	type topicMeta struct {
		Name string `json:"topic_name"`
		lookupMeta
	}
	a := struct {
		Topics   []string    `json:"topics"`
		MetaInfo []topicMeta `json:"meta_info,omitempty"`
	}{Topics: []string{}}
	withMeta := p.Flag("metaInfo", false)
	for _, t := range s.broker.Topics() {
		a.Topics = append(a.Topics, t.Name)
		if withMeta {
			a.MetaInfo = append(a.MetaInfo, topicMeta{t.Name, *metaOf(t.Config)})
		}
	}
	return a, nil
}

// listChannels answers the names of a topic's channels, none for no topic.
func (s *Lookup) listChannels(r *http.Request) (any, error) {
	name, err := nsqform.ExistingTopic(r)
	if err != nil {
		return nil, err
	}
	a := struct {
		Channels []string `json:"channels"`
	}{Channels: []string{}}
	if t, err := s.names.Topic(name); err == nil {
		a.Channels = s.names.Channels(t)
	}
	return a, nil
}

func (s *Lookup) listNodes(*http.Request) (any, error) {
	return struct {
		Producers []lookupNode `json:"producers"`
	}{s.directory().list(s.broker.Topics())}, nil
}

// listPeers answers the lookup addresses of the cluster.
func (s *Lookup) listPeers(*http.Request) (any, error) {
	a := struct {
		Nodes  []lookupPeer `json:"lookupdnodes"`
		Leader *lookupPeer  `json:"lookupdleader"`
	}{Nodes: s.directory().peers()}
	controller := s.broker.Cluster().Controller
	for i := range a.Nodes {
		if a.Nodes[i].ID == controller {
			a.Leader = &a.Nodes[i]
		}
	}
	return a, nil
}

// debugEntry is one registration in /debug.
type debugEntry struct {
	ID               string `json:"id"`
	Hostname         string `json:"hostname"`
	BroadcastAddress string `json:"broadcast_address"`
	TCPPort          int    `json:"tcp_port"`
	HTTPPort         int    `json:"http_port"`
	Version          string `json:"version"`
	LastUpdate       int64  `json:"last_update"` // ns since 1970
	Tombstoned       bool   `json:"tombstoned"`
	TombstonedAt     int64  `json:"tombstoned_at"` // ns since 1970; 0: never
}

// registrations answers everything, in the form of a registration database.
func (s *Lookup) registrations(*http.Request) (any, error) {
	d := s.directory()
	entries := map[string][]debugEntry{}
	for _, n := range d.list(s.broker.Topics()) {
		e := debugEntry{
			ID:               n.RemoteAddress,
			Hostname:         n.Hostname,
			BroadcastAddress: n.BroadcastAddress,
			TCPPort:          n.TCPPort,
			HTTPPort:         n.HTTPPort,
			Version:          n.Version,
			LastUpdate:       d.now.UnixNano(), // the metadata is always of now
		}
		entries["client::"] = append(entries["client::"], e)
		for _, name := range n.Topics {
			te := e
			if at, ok := s.hidden.When(name, n.HTTP(), d.now); ok {
				te.Tombstoned, te.TombstonedAt = true, at.UnixNano()
			}
			key := "topic:" + name + ":"
			entries[key] = append(entries[key], te)
			t, err := s.names.Topic(name)
			if err != nil {
				continue // deleted meanwhile
			}
			for _, channel := range s.names.Channels(t) {
				key := "channel:" + name + ":" + channel
				entries[key] = append(entries[key], e)
			}
		}
	}
	return entries, nil
}

// deleteTopic deletes a topic. A missing one counts as deleted, and is remembered as such for calls
// to other nodes that may follow.
func (s *Lookup) deleteTopic(r *http.Request) (any, error) {
	name, err := nsqform.ExistingTopic(r)
	if err != nil {
		return nil, err
	}
	if err = s.names.Whole(r, name); err == nil {
		err = s.broker.DeleteTopic(r.Context(), name)
	}
	if err = nsqform.UnlessMissing(err); err != nil {
		return nil, err
	}
	s.deleted.Add(name, "", time.Now())
	return nil, nil
}

// tombstone hides a node of a topic from /lookup for a while.
func (s *Lookup) tombstone(r *http.Request) (any, error) {
	p, err := nsqform.ReadParams(r)
	if err != nil {
		return nil, err
	}
	name, err := p.Needed("topic", "MISSING_ARG_TOPIC")
	if err != nil {
		return nil, err
	}
	node, err := p.Needed("node", "MISSING_ARG_NODE")
	if err != nil {
		return nil, err
	}
	if restore, _ := p.Lookup("restore"); restore == "true" {
		s.hidden.Forget(name, node)
		return nil, nil
	}
	d := s.directory()
	for _, n := range d.nodes {
		if producer := d.producer(n); sameAddress(producer.HTTP(), node) {
			s.hidden.Add(name, producer.HTTP(), d.now)
		}
	}
	return nil, nil
}

// sameAddress reports whether b, perhaps an IPv6 address without its brackets, is
// the address a.
func sameAddress(a, b string) bool {
	if a == b {
		return true
	}
	host, port := splitAddress(a)
	return b == host+":"+strconv.Itoa(port)
}

// createChannel creates a channel, and its topic first if necessary.
func (s *Lookup) createChannel(r *http.Request) (any, error) {
	topic, channel, err := nsqform.NewChannelParams(r)
	if err != nil {
		return nil, err
	}
	if err := s.names.Make(r.Context(), topic); err != nil {
		return nil, err
	}
	s.deleted.Forget(topic, channel)
	return nil, s.broker.CreateChannel(r.Context(), topic, channel, false)
}

// deleteChannel deletes a channel. One that was just deleted, here or at another
// node, is not missed.
func (s *Lookup) deleteChannel(r *http.Request) (any, error) {
	topic, channel, err := nsqform.ChannelParams(r)
	if err != nil {
		return nil, err
	}
	now, had := time.Now(), s.names.Has(topic, channel)
	if err = s.names.Whole(r, topic); err == nil {
		err = s.broker.DeleteChannel(r.Context(), topic, channel)
	}
	switch {
	case err == nil:
		s.deleted.Add(topic, channel, now)
		return nil, nil
	case nsqform.IsMissing(err) && (had || s.deleted.Has(topic, channel, now) || s.broker.DeletedLately(topic, channel)):
		return nil, nil
	case nsqform.IsMissing(err):
		return nil, nsqform.NotFound("CHANNEL_NOT_FOUND")
	}
	return nil, err
}

func (s *Lookup) info(*http.Request) (any, error) {
	return struct {
		Version string `json:"version"`
	}{s.id.Version}, nil
}
