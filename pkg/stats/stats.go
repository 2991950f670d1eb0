package stats

import (
	"time"

	"github.com/brokerd/brokerd/internal/latency"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/dedup"
	"github.com/brokerd/brokerd/pkg/flow"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Topic describes a topic over the partitions that this node leads.
type Topic struct {
	Name      string
	Ephemeral bool
	Paused    bool
	Depth     int64     // messages that no channel has received yet
	Messages  uint64    // published since the process started
	Bytes     uint64    // of their bodies
	LogBytes  int64     // on disk
	Refused   uint64    // messages beyond the topic's maximum of bytes, since the process started
	FullSince time.Time // from when on messages are refused so; zero: none was within the last minute
	// RefusedSize is how many bytes the publish would have taken that was refused so last, on the node where it is largest.
	RefusedSize int64
	Dropped     uint64  // messages dropped because of its size before every channel had finished them
	QuotaUsed   float64 // fraction of its maximum of bytes used by the fullest partition; -1: it has no maximum
	Dedup       dedup.Counts
	Partitions  []Partition
	Channels    []Channel
	// MissingNodes lead partitions of the topic and have not answered: the sums lack
	// their partitions.
	MissingNodes []string
	// Elsewhere means that the asked node leads no partition of the topic, and that
	// the figures are the cluster's: see NodeStats.
	Elsewhere bool
}

// Partition describes one partition of a topic.
type Partition struct {
	Partition    int
	Leader       string
	Epoch        seq.Epoch
	LogStart     seq.Offset
	CommittedEnd seq.Offset
	LogEnd       seq.Offset
	Bytes        int64
}

// Channel describes a channel over the partitions that this node leads.
type Channel struct {
	Name      string
	Ephemeral bool
	Paused    bool
	Order     policy.Order
	api.ChannelCounts
	Throttled    time.Duration          // that consumers waited for the channel's rate, since the process started
	OldestAge    time.Duration          // of the oldest unfinished message; 0: none
	Rates        flow.Rates             // of messages that come and are finished
	Latency      *latency.Histogram     // from publish to FIN, recently; nil: not kept, see Options.LatencyWindow
	LastConsumer string                 // name of the consumer that left last
	LeftAt       time.Time              // when it did; zero: not known
	Partitions   []api.ChannelPartition // the channel's place in each
	Ready        int64                  // messages that consumers take at a time: their RDY, summed
	Consumers    int                    // subscriptions, whether Clients lists them or not
	Clients      []Client               // nil unless asked for
}

// Subscribed is the State of a Client that consumes a channel.
const Subscribed = 3

// Client describes one connection, producer or consumer. The broker fills
// in the counts that belong to a subscription.
type Client struct {
	api.Consumer
	State                         int // 0 init, Subscribed, 4 closing
	SampleRate                    int
	Deflate, Snappy               bool
	TLSCipherSuite, TLSVersion    string
	TLSNegotiatedProtocol         string
	TLSMutual                     bool
	Authed                        bool
	AuthIdentity, AuthIdentityURL string
	TopologyZone, TopologyRegion  string
	PubCounts                     map[string]uint64 // messages published, by topic
}

// Name identifies the client in output.
func (c *Client) Name() string {
	if c.ClientID == "" {
		return c.Address
	}
	return c.ClientID + " (" + c.Address + ")"
}
