package nsqd

import (
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/internal/latency"
	"github.com/brokerd/brokerd/pkg/admin/nsqform"
	"github.com/brokerd/brokerd/pkg/stats"
)

// nsqStats is the JSON of /stats. Its names, and which fields may be null, are those of nsqd.
type nsqStats struct {
	Version   string           `json:"version"`
	Health    string           `json:"health"`
	StartTime int64            `json:"start_time"` // s since 1970
	Topics    []nsqTopicStats  `json:"topics"`     // null for a topic filter that nothing matches
	Memory    *nsqMemory       `json:"memory,omitempty"`
	Producers []nsqClientStats `json:"producers"`
}

type nsqTopicStats struct {
	Name         string            `json:"topic_name"`
	Channels     []nsqChannelStats `json:"channels"`
	Depth        int64             `json:"depth"`
	BackendDepth int64             `json:"backend_depth"`
	MessageCount uint64            `json:"message_count"`
	MessageBytes uint64            `json:"message_bytes"`
	Paused       bool              `json:"paused"`
	Latency      nsqLatency        `json:"e2e_processing_latency"`
	// Elsewhere: this node leads none of the topic, and the figures are the cluster's.
	Elsewhere bool `json:"elsewhere,omitempty"`
}

type nsqChannelStats struct {
	Name          string           `json:"channel_name"`
	Depth         int64            `json:"depth"` // waiting: neither in flight nor deferred
	BackendDepth  int64            `json:"backend_depth"`
	InFlightCount int64            `json:"in_flight_count"`
	DeferredCount int64            `json:"deferred_count"`
	MessageCount  uint64           `json:"message_count"`
	RequeueCount  uint64           `json:"requeue_count"`
	TimeoutCount  uint64           `json:"timeout_count"`
	ClientCount   int              `json:"client_count"`
	Clients       []nsqClientStats `json:"clients"` // null if they were not requested
	Paused        bool             `json:"paused"`
	Latency       nsqLatency       `json:"e2e_processing_latency"`
}

// nsqLatency is always an object, because tools that merge nodes rely on it.
type nsqLatency struct {
	Count       uint64          `json:"count"`
	Percentiles []nsqPercentile `json:"percentiles"` // null: none are configured
}

type nsqPercentile struct {
	Quantile float64 `json:"quantile"`
	Value    int64   `json:"value"` // ns
}

type nsqClientStats struct {
	ClientID        string        `json:"client_id"`
	Hostname        string        `json:"hostname"`
	Version         string        `json:"version"` // of the protocol
	RemoteAddress   string        `json:"remote_address"`
	State           int           `json:"state"`
	ReadyCount      int64         `json:"ready_count"`
	InFlightCount   int64         `json:"in_flight_count"`
	MessageCount    uint64        `json:"message_count"`
	FinishCount     uint64        `json:"finish_count"`
	RequeueCount    uint64        `json:"requeue_count"`
	ConnectTime     int64         `json:"connect_ts"` // s since 1970
	SampleRate      int           `json:"sample_rate"`
	Deflate         bool          `json:"deflate"`
	Snappy          bool          `json:"snappy"`
	UserAgent       string        `json:"user_agent"`
	Authed          bool          `json:"authed,omitempty"`
	AuthIdentity    string        `json:"auth_identity,omitempty"`
	AuthIdentityURL string        `json:"auth_identity_url,omitempty"`
	PubCounts       []nsqPubCount `json:"pub_counts,omitempty"`
	TLS             bool          `json:"tls"`
	CipherSuite     string        `json:"tls_cipher_suite"`
	TLSVersion      string        `json:"tls_version"`
	TLSProtocol     string        `json:"tls_negotiated_protocol"`
	TLSMutual       bool          `json:"tls_negotiated_protocol_is_mutual"`
	TopologyZone    string        `json:"topology_zone"`
	TopologyRegion  string        `json:"topology_region"`
}

type nsqPubCount struct {
	Topic string `json:"topic"`
	Count uint64 `json:"count"`
}

// reports are the endpoints about the node itself.
type reports struct {
	nsqform.Catalog
	o Options
}

func (s *reports) route(t *nsqform.Router) {
	t.Add(http.MethodGet, "/stats", s.stats)
	t.Add(http.MethodGet, "/info", s.info)
	t.Add(http.MethodGet, "/config/", s.option)
	t.Add(http.MethodPut, "/config/", s.setOption)
	t.Plain(http.MethodGet, "/ping", nsqform.Ping(s.o.Broker.Ready))
}

// stats describes the topics, in JSON or for people.
func (s *reports) stats(r *http.Request) (any, error) {
	p, err := nsqform.ReadParams(r)
	if err != nil {
		return nil, err
	}
	topic, _ := p.Lookup("topic")
	channel, _ := p.Lookup("channel")
	if err := s.knows(p, topic); err != nil {
		return nil, err
	}
	clients := p.Flag("include_clients", true)
	read := s.o.Broker.NodeStats
	if p.Flag("cluster", false) {
		read = s.o.Broker.ClusterStats
	}
	id := s.o.Identity
	st := nsqStats{
		Version:   id.Version,
		Health:    nsqform.Health(s.o.Broker.Ready()),
		StartTime: id.Started.Unix(),
		Topics:    s.o.Figures.nsqTopics(read(r.Context(), topic, channel, clients), channel, clients),
	}
	if len(st.Topics) == 0 && topic != "" && s.Find(topic) != nil {
		st.Topics = nil
	}
	if p.Flag("include_mem", true) {
		st.Memory = readMemory()
	}
	if clients {
		st.Producers = nsqProducers(s.o.Clients())
	}
	if format, _ := p.Lookup("format"); format != "json" {
		return statsText(st, id.Started), nil
	}
	return st, nil
}

// knows refuses a partition that is not one of the topic's.
func (s *reports) knows(p nsqform.Params, topic string) error {
	if _, err := p.Partition(); err != nil {
		return err
	}
	t, err := s.Topic(topic)
	if err != nil {
		return nil //nolint:nilerr // a missing topic has no statistics
	}
	_, err = p.PartitionOf(t)
	return err
}

// Figures define how statistics are converted to the form of nsqd.
type Figures struct {
	// MemQueueSize is how many waiting messages of a topic or channel nsqd would keep in memory.
	// Here all messages are on disk. But monitoring of nsqd reads backend_depth as the messages
	// beyond its memory, and raises an alarm at the first one.
	MemQueueSize int64
	// Quantiles of the time from publish to FIN to show, each greater than 0 and at most 1.
	Quantiles []float64
}

// beyond returns the backend_depth of a queue.
func (f *Figures) beyond(depth int64) int64 { return max(0, depth-f.MemQueueSize) }

// latency converts latencies to the form of /stats.
func (f *Figures) latency(h *latency.Histogram) nsqLatency {
	if len(f.Quantiles) == 0 {
		return nsqLatency{}
	}
	if h == nil {
		h = new(latency.Histogram)
	}
	l := nsqLatency{Count: h.Count()}
	for _, q := range f.Quantiles {
		l.Percentiles = append(l.Percentiles, nsqPercentile{q, h.Quantile(q).Nanoseconds()})
	}
	return l
}

// topicLatency returns the latencies of all channels of a topic.
func topicLatency(t *stats.Topic) (all *latency.Histogram) {
	for i := range t.Channels {
		all = latency.Merged(all, t.Channels[i].Latency)
	}
	return all
}

// nsqTopics puts stats in the form of /stats. With a channel filter, topics
// without that channel are left out.
func (f *Figures) nsqTopics(stats []stats.Topic, channelFilter string, clients bool) []nsqTopicStats {
	topics := make([]nsqTopicStats, 0, len(stats))
	for _, t := range stats {
		if channelFilter != "" && len(t.Channels) == 0 {
			continue
		}
		nt := nsqTopicStats{
			Name:         t.Name,
			Channels:     make([]nsqChannelStats, 0, len(t.Channels)),
			Depth:        t.Depth,
			BackendDepth: f.beyond(t.Depth),
			MessageCount: t.Messages,
			MessageBytes: t.Bytes,
			Paused:       t.Paused,
			Latency:      f.latency(topicLatency(&t)),
			Elsewhere:    t.Elsewhere,
		}
		for _, c := range t.Channels {
			nt.Channels = append(nt.Channels, f.nsqChannel(c, clients))
		}
		topics = append(topics, nt)
	}
	return topics
}

func (f *Figures) nsqChannel(c stats.Channel, clients bool) nsqChannelStats {
	nc := nsqChannelStats{
		Name:          c.Name,
		Depth:         c.Depth,
		BackendDepth:  f.beyond(c.Depth),
		InFlightCount: c.InFlight,
		DeferredCount: c.Deferred,
		MessageCount:  c.MessagesTotal,
		RequeueCount:  c.RequeuedTotal,
		TimeoutCount:  c.TimedOutTotal,
		ClientCount:   c.Consumers,
		Latency:       f.latency(c.Latency),
		Paused:        c.Paused,
	}
	if clients {
		nc.Clients = make([]nsqClientStats, 0, len(c.Clients))
		for _, cl := range c.Clients {
			nc.Clients = append(nc.Clients, nsqClient(cl))
		}
	}
	return nc
}

func nsqClient(c stats.Client) nsqClientStats {
	nc := nsqClientStats{
		ClientID:        c.ClientID,
		Hostname:        c.Hostname,
		Version:         "V2",
		RemoteAddress:   c.Address,
		State:           c.State,
		ReadyCount:      c.Ready,
		InFlightCount:   c.InFlight,
		MessageCount:    c.DeliveredTotal,
		FinishCount:     c.FinishedTotal,
		RequeueCount:    c.RequeuedTotal,
		ConnectTime:     c.ConnectedAt.Unix(),
		SampleRate:      c.SampleRate,
		Deflate:         c.Deflate,
		Snappy:          c.Snappy,
		UserAgent:       c.UserAgent,
		Authed:          c.Authed,
		AuthIdentity:    c.AuthIdentity,
		AuthIdentityURL: c.AuthIdentityURL,
		TLS:             c.TLS,
		CipherSuite:     c.TLSCipherSuite,
		TLSVersion:      c.TLSVersion,
		TLSProtocol:     c.TLSNegotiatedProtocol,
		TLSMutual:       c.TLSMutual,
		TopologyZone:    c.TopologyZone,
		TopologyRegion:  c.TopologyRegion,
	}
	for topic, n := range c.PubCounts {
		nc.PubCounts = append(nc.PubCounts, nsqPubCount{topic, n})
	}
	slices.SortFunc(nc.PubCounts, func(a, b nsqPubCount) int { return strings.Compare(a.Topic, b.Topic) })
	return nc
}

// nsqProducers keeps the connections that have published.
func nsqProducers(clients []stats.Client) []nsqClientStats {
	producers := []nsqClientStats{}
	for _, c := range clients {
		if len(c.PubCounts) > 0 {
			producers = append(producers, nsqClient(c))
		}
	}
	return producers
}

// nsqInfo is the JSON of /info. Durations are nanoseconds.
type nsqInfo struct {
	Version                string `json:"version"`
	BroadcastAddress       string `json:"broadcast_address"`
	Hostname               string `json:"hostname"`
	HTTPPort               int    `json:"http_port"`
	TCPPort                int    `json:"tcp_port"`
	StartTime              int64  `json:"start_time"`
	MaxHeartbeatInterval   int64  `json:"max_heartbeat_interval"`
	MaxOutputBufferSize    int64  `json:"max_output_buffer_size"`
	MaxOutputBufferTimeout int64  `json:"max_output_buffer_timeout"`
	MaxDeflateLevel        int    `json:"max_deflate_level"`
	TopologyZone           string `json:"topology_zone"`
	TopologyRegion         string `json:"topology_region"`
}

func (s *reports) info(*http.Request) (any, error) {
	id := s.o.Identity
	hostname := id.Hostname
	if hostname == "" {
		var err error
		if hostname, err = os.Hostname(); err != nil {
			return nil, &nsqform.Error{Status: http.StatusInternalServerError, Word: err.Error()}
		}
	}
	return nsqInfo{
		Version:                id.Version,
		BroadcastAddress:       id.BroadcastAddress,
		Hostname:               hostname,
		HTTPPort:               id.HTTPPort,
		TCPPort:                id.TCPPort,
		StartTime:              id.Started.Unix(),
		MaxHeartbeatInterval:   id.MaxHeartbeatInterval.Nanoseconds(),
		MaxOutputBufferSize:    id.MaxOutputBufferSize,
		MaxOutputBufferTimeout: id.MaxOutputBufferTimeout.Nanoseconds(),
		MaxDeflateLevel:        id.MaxDeflateLevel,
		TopologyZone:           id.Zone,
		TopologyRegion:         id.Region,
	}, nil
}
