package admin

import (
	"net/http"
	"strconv"
	"time"

	"github.com/brokerd/brokerd/pkg/broker"
	"github.com/brokerd/brokerd/pkg/meta"
)

// lookups answers as nsqlookupd does, from the cluster's metadata.
type lookups struct {
	catalog
	id      Identity
	deleted *recently // names that were deleted here
	hidden  *recently // tombstones: topics and the nodes that /lookup leaves out of them
}

// routeReads adds what a client looks up, on both addresses.
func (s *lookups) routeReads(t *router) {
	t.v1(http.MethodGet, "/lookup", s.lookup)
	t.v1(http.MethodGet, "/topics", s.topics)
	t.v1(http.MethodGet, "/channels", s.listChannels)
	t.v1(http.MethodGet, "/nodes", s.listNodes)
	t.v1(http.MethodGet, "/listlookup", s.listPeers)
}

// routeWrites adds the rest of nsqlookupd, whose names stand for something else
// on the HTTP address.
func (s *lookups) routeWrites(t *router) {
	t.v1(http.MethodGet, "/debug", s.registrations)
	t.v1(http.MethodPost, "/topic/create", s.createTopic("INVALID_ARG_TOPIC"))
	t.v1(http.MethodPost, "/topic/delete", s.deleteTopic)
	t.v1(http.MethodPost, "/topic/tombstone", s.tombstone)
	t.v1(http.MethodPost, "/channel/create", s.createChannel)
	t.v1(http.MethodPost, "/channel/delete", s.deleteChannel)
}

// directory is the cluster of this moment.
func (s *lookups) directory() *directory {
	info := s.broker.Cluster()
	d := &directory{
		nodes:  make(map[string]broker.NodeInfo, len(info.Nodes)),
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

// tombstonedHere says whether a topic has a tombstone on this node, of those
// that were set here.
func (s *lookups) tombstonedHere(topic string, now time.Time) bool {
	d := s.directory()
	p := d.producer(d.nodes[d.self])
	return s.hidden.has(topic, p.tombstone(), now)
}

// lookup answers where a topic is. A publisher that asks for a topic that there is
// not is sent to this node, where topics are made on first use: publishing makes it.
func (s *lookups) lookup(r *http.Request) (any, error) {
	p, err := readParams(r)
	if err != nil {
		return nil, err
	}
	name, err := p.needed("topic", "MISSING_ARG_TOPIC")
	if err != nil {
		return nil, err
	}
	access, _ := p.lookup("access")
	switch access {
	case "", "r", "w":
	default:
		return nil, refuse("INVALID_ACCESS_MODE")
	}
	if _, err := p.partition(); err != nil {
		return nil, err
	}
	t, err := s.topic(name)
	if err != nil && access == "w" && meta.ValidTopicName(name) {
		if config, made := s.broker.MadeOnFirstUse(); made {
			return s.lookupNew(p, config)
		}
	}
	if err != nil {
		return nil, err
	}
	partition, err := p.partitionOf(t)
	if err != nil {
		return nil, err
	}
	a := s.directory().lookup(t, partition, s.channels(t))
	if info, _ := p.lookup("metainfo"); info != "" {
		a.Meta = metaOf(t.Config)
	}
	return a, nil
}

// lookupNew answers for a topic that a publish would make: this node takes it, on
// any partition.
func (s *lookups) lookupNew(p params, config meta.TopicConfig) (any, error) {
	d := s.directory()
	t := &meta.Topic{Config: config, Partitions: make([]meta.Partition, config.Partitions)}
	for i := range t.Partitions {
		t.Partitions[i].Leader = meta.NodeID(d.self)
	}
	partition, err := p.partitionOf(t)
	if err != nil {
		return nil, err
	}
	a := d.lookup(t, partition, []string{})
	if info, _ := p.lookup("metainfo"); info != "" {
		a.Meta = metaOf(config)
	}
	return a, nil
}

// topics answers the names of all topics.
func (s *lookups) topics(r *http.Request) (any, error) {
	p, err := readParams(r)
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
	withMeta := p.flag("metaInfo", false)
	for _, t := range s.broker.Topics() {
		a.Topics = append(a.Topics, t.Name)
		if withMeta {
			a.MetaInfo = append(a.MetaInfo, topicMeta{t.Name, *metaOf(t.Config)})
		}
	}
	return a, nil
}

// listChannels answers the names of a topic's channels, none for no topic.
func (s *lookups) listChannels(r *http.Request) (any, error) {
	name, err := existingTopic(r)
	if err != nil {
		return nil, err
	}
	a := struct {
		Channels []string `json:"channels"`
	}{Channels: []string{}}
	if t, err := s.topic(name); err == nil {
		a.Channels = s.channels(t)
	}
	return a, nil
}

func (s *lookups) listNodes(*http.Request) (any, error) {
	return struct {
		Producers []lookupNode `json:"producers"`
	}{s.directory().list(s.broker.Topics())}, nil
}

// listPeers answers the lookup addresses of the cluster.
func (s *lookups) listPeers(*http.Request) (any, error) {
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
func (s *lookups) registrations(*http.Request) (any, error) {
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
			if at, ok := s.hidden.when(name, n.tombstone(), d.now); ok {
				te.Tombstoned, te.TombstonedAt = true, at.UnixNano()
			}
			key := "topic:" + name + ":"
			entries[key] = append(entries[key], te)
			t, err := s.topic(name)
			if err != nil {
				continue // deleted meanwhile
			}
			for _, channel := range s.channels(t) {
				key := "channel:" + name + ":" + channel
				entries[key] = append(entries[key], e)
			}
		}
	}
	return entries, nil
}

// deleteTopic deletes a topic. One that is not there is as good as
// deleted, and remembered as such for the calls to nodes that may follow.
func (s *lookups) deleteTopic(r *http.Request) (any, error) {
	name, err := existingTopic(r)
	if err != nil {
		return nil, err
	}
	if err = s.whole(r, name); err == nil {
		err = s.broker.DeleteTopic(r.Context(), name)
	}
	if err = unlessMissing(err); err != nil {
		return nil, err
	}
	s.deleted.add(name, "", time.Now())
	return nil, nil
}

// tombstone hides a node of a topic from /lookup for a while.
func (s *lookups) tombstone(r *http.Request) (any, error) {
	p, err := readParams(r)
	if err != nil {
		return nil, err
	}
	name, err := p.needed("topic", "MISSING_ARG_TOPIC")
	if err != nil {
		return nil, err
	}
	node, err := p.needed("node", "MISSING_ARG_NODE")
	if err != nil {
		return nil, err
	}
	if restore, _ := p.lookup("restore"); restore == "true" {
		s.hidden.forget(name, node)
		return nil, nil
	}
	d := s.directory()
	for _, n := range d.nodes {
		if producer := d.producer(n); sameAddress(producer.tombstone(), node) {
			s.hidden.add(name, producer.tombstone(), d.now)
		}
	}
	return nil, nil
}

// sameAddress says whether b, perhaps an IPv6 address without its brackets, is
// the address a.
func sameAddress(a, b string) bool {
	if a == b {
		return true
	}
	host, port := splitAddress(a)
	return b == host+":"+strconv.Itoa(port)
}

// createChannel makes a channel, and its topic first if need be.
func (s *lookups) createChannel(r *http.Request) (any, error) {
	topic, channel, err := newChannelParams(r)
	if err != nil {
		return nil, err
	}
	if err := s.make(r.Context(), topic); err != nil {
		return nil, err
	}
	s.deleted.forget(topic, channel)
	return nil, s.broker.CreateChannel(r.Context(), topic, channel, false)
}

// deleteChannel deletes a channel. One that was just deleted, here or at another
// node, is not missed.
func (s *lookups) deleteChannel(r *http.Request) (any, error) {
	topic, channel, err := channelParams(r)
	if err != nil {
		return nil, err
	}
	now, had := time.Now(), s.has(topic, channel)
	if err = s.whole(r, topic); err == nil {
		err = s.broker.DeleteChannel(r.Context(), topic, channel)
	}
	switch {
	case err == nil:
		s.deleted.add(topic, channel, now)
		return nil, nil
	case isMissing(err) && (had || s.deleted.has(topic, channel, now) || s.broker.DeletedLately(topic, channel)):
		return nil, nil
	case isMissing(err):
		return nil, notFound("CHANNEL_NOT_FOUND")
	}
	return nil, err
}
