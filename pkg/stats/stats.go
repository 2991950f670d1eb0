package stats

import (
	"time"

	"github.com/brokerd/brokerd/internal/latency"
	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/dedup"
	"github.com/brokerd/brokerd/pkg/filter"
	"github.com/brokerd/brokerd/pkg/flow"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Topic describes a topic over the partitions that this node leads.
type Topic struct {
	Name       string
	Ephemeral  bool
	Paused     bool
	Depth      int64   // messages that no channel has got yet
	Messages   uint64  // published since the process started
	Bytes      uint64  // of their bodies
	LogBytes   int64   // on disk
	Refused    uint64  // messages beyond the topic's maximum of bytes, since the process started
	Dropped    uint64  // messages that went for that though some channel had not finished them
	QuotaUsed  float64 // of its maximum of bytes, by the fullest partition: 1 is all; -1: it has no maximum
	Dedup      dedup.Counts
	Partitions []Partition
	Channels   []Channel
	// MissingNodes lead partitions of the topic and have not answered: what they have
	// is missing in the sums.
	MissingNodes []string
	// Elsewhere says that the node that was asked leads no partition of the topic, and
	// that the figures are the cluster's: see NodeStats.
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
	Depth     int64 // waiting: neither in flight nor deferred
	InFlight  int64
	Deferred  int64
	Messages  uint64 // that came to the channel since the process started
	Delivered uint64
	Finished  uint64
	Requeued  uint64
	TimedOut  uint64
	Expired   uint64        // dropped instead of delivered, since their time to live was over
	Filtered  filter.Counts // what the channel's filter left out
	// FilterBroken says that the filter cannot be used, and nothing is delivered.
	FilterBroken bool
	Failing      Failing
	OldestAge    time.Duration      // of the oldest unfinished message; 0: none
	Rates        flow.Rates         // of messages that come and are finished
	Latency      *latency.Histogram // from publish to FIN, recently; nil: not kept, see Options.LatencyWindow
	Partitions   []Place
	Ready        int64    // messages that consumers take at a time: their RDY, summed
	Consumers    int      // subscriptions, whether Clients lists them or not
	Clients      []Client // nil unless asked for
}

// Failing counts the messages of a channel that its consumers do not finish.
type Failing struct {
	Exhausted    int64         // have had all their attempts, and are still there
	Expired      int64         // lived too long, and are to become dead letters
	BackingOff   int64         // deferred by the channel's backoff
	RateLimited  bool          // consumers wait for the channel's rate
	Throttled    time.Duration // that consumers waited for the channel's rate, since the process started
	BackedOff    uint64        // deferred by the backoff, since the process started
	DeadLettered uint64
	Dropped      uint64
}

// Add adds what there is elsewhere.
func (f *Failing) Add(o Failing) {
	f.Exhausted += o.Exhausted
	f.Expired += o.Expired
	f.BackingOff += o.BackingOff
	f.RateLimited = f.RateLimited || o.RateLimited
	f.Throttled += o.Throttled
	f.BackedOff += o.BackedOff
	f.DeadLettered += o.DeadLettered
	f.Dropped += o.Dropped
}

// Place is a channel's place in one partition.
type Place struct {
	Partition int
	Leader    string
	Confirmed seq.Offset        // everything below is finished
	Lag       int64             // committed end - confirmed
	Blocked   *seq.Offset       // the first message that has used up its attempts, and stays; nil: none
	KeyBlock  *channel.KeyBlock // the key for which most messages wait; nil: others do not
	Spinning  []Spinning        // messages that consumers requeue as soon as they get them, the fastest first
}

// Spinning is a message that is delivered and requeued over and over.
type Spinning struct {
	Offset    seq.Offset
	PerSecond float64
}

// Client describes one connection, producer or consumer. The broker fills
// in the counts that belong to a subscription.
type Client struct {
	ClientID, Hostname, UserAgent string
	RemoteAddress                 string
	State                         int // 0 init, 3 subscribed, 4 closing
	ConnectTime                   time.Time
	SampleRate                    int
	Deflate, Snappy               bool
	TLS                           bool
	TLSCipherSuite, TLSVersion    string
	TLSNegotiatedProtocol         string
	TLSMutual                     bool
	Authed                        bool
	AuthIdentity, AuthIdentityURL string
	TopologyZone, TopologyRegion  string
	PubCounts                     map[string]uint64 // messages published, by topic

	// of the subscription
	Ready, InFlight               int64
	Delivered, Finished, Requeued uint64
	TimedOut                      uint64
}

// Name tells people which client it is.
func (c *Client) Name() string {
	if c.ClientID == "" {
		return c.RemoteAddress
	}
	return c.ClientID + " (" + c.RemoteAddress + ")"
}
