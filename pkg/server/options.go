package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/brokerd/brokerd/pkg/consume"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/guard"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/nsq"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/server/auth"
	"github.com/brokerd/brokerd/pkg/topic"
)

// Broker is what sessions need of a node. All of it is required.
type Broker struct {
	Publisher
	Subscriber
	TopicReader
}

// Publisher stores messages.
type Publisher interface {
	// Publish copies the messages before it returns. It may block, for
	// back-pressure or to create the topic, until ctx ends. It calls p.Done
	// exactly once, perhaps before it returns, from any goroutine.
	Publish(ctx context.Context, p publish.Request)
}

// Subscriber has clients join channels.
type Subscriber interface {
	// Subscribe joins a channel. It may block, to create it, until ctx ends.
	Subscribe(ctx context.Context, s consume.Subscribe) (Subscription, error)
}

// TopicReader knows the topics of the cluster.
type TopicReader interface {
	// Topic returns a topic of the cluster, which may not be changed, or
	// meta.ErrTopicNotFound.
	Topic(name string) (*meta.Topic, error)
}

// Answerer answers messages in flight. The text of its errors goes to the client.
type Answerer interface {
	Finish(id seq.MessageID) error
	Requeue(id seq.MessageID, delay time.Duration) error
	Touch(id seq.MessageID) error
}

// Prospect says what a Take would find.
type Prospect interface {
	// AtHand reports whether Take finds what is next without waiting for a disk or another node. It
	// is called as Take is.
	AtHand() bool
	// Waits reports that Take found nothing although there was room: Wake is called, or was already, when
	// there is something.
	Waits() bool
}

// Subscription is a place in a channel. Take, AtHand and Deliverable are called by one
// goroutine at a time, Close after their last call; the other methods may be called
// beside them.
type Subscription interface {
	// Take delivers at most min(max, ready - in flight) messages. It calls emit
	// for each, with slices that are valid during the call. An error of emit
	// ends it and is returned; the message that emit refused counts as not
	// delivered. 0 and no error: nothing now, Wake will be called.
	Take(now time.Time, max int, emit func(*topic.Delivery) error) (int, error)
	// Deliverable reports whether all that Take has delivered since it was asked
	// last may still be written to the client at now. If not, nothing of it is,
	// and Close follows.
	Deliverable(now time.Time) bool
	Prospect
	// Numbering says by which ids clients know the messages; it is always the same.
	Numbering() seq.Numbering
	// SetReady sets how many messages may be in flight.
	SetReady(n int)
	Answerer
	// StopDelivery makes every later Take deliver nothing.
	StopDelivery()
	// Close leaves the channel and hands back what is in flight.
	Close()
}

// ErrClustered is why a client may not make a topic explicitly.
var ErrClustered = fate.Refuse("topics of a cluster are created by its operators")

// Options configure a Server. The zero value of a field is its default. The
// names in brackets are those of nsqd's options.
type Options struct {
	// Version is what IDENTIFY tells; it must look like 1.3.0. Some tools parse it.
	Version string
	// Cluster is the cluster's id, by which the messages of its topics are numbered.
	Cluster string
	// CreateTopic makes sure that a topic has a number of partitions, for
	// INTERNAL_CREATE_TOPIC. ErrClustered: the cluster has several nodes, and topics are
	// made by its operators. nil: always so.
	CreateTopic func(ctx context.Context, name string, partitions int, ext bool) error
	// MaxMessageBytes bounds the body of one message. 1 MiB. [max-msg-size]
	MaxMessageBytes int
	// MaxBodyBytes bounds the body of an MPUB; that of a PUB or DPUB is a message,
	// that of IDENTIFY or AUTH at most maxIntroduction. 5 MiB. [max-body-size]
	MaxBodyBytes int
	// MaxReady bounds RDY. 2500. [max-rdy-count]
	MaxReady int
	// MsgTimeout is how long a message may stay unanswered when the client does
	// not ask. 60 s. [msg-timeout]
	MsgTimeout time.Duration
	// MaxMsgTimeout bounds what the client may ask. 15 min. [max-msg-timeout]
	MaxMsgTimeout time.Duration
	// MaxDelay bounds the delays of REQ, which is clamped, and DPUB, which is
	// refused. 1 h. [max-req-timeout]
	MaxDelay time.Duration
	// Heartbeat is the interval of clients that do not ask. 30 s.
	// [client-timeout, halved]
	Heartbeat time.Duration
	// MaxHeartbeat bounds what the client may ask. 60 s. [max-heartbeat-interval]
	MaxHeartbeat time.Duration
	// OutputBufferSize is a connection's output buffer, in bytes, when the client
	// does not ask. 16 KiB.
	OutputBufferSize int
	// MaxOutputBufferSize bounds what the client may ask. 64 KiB. [max-output-buffer-size]
	MaxOutputBufferSize int
	// OutputBufferTimeout is negotiated for the client's sake: frames never wait
	// for it, as the buffer is flushed when there is nothing more to send.
	// 250 ms, 25 ms, 30 s. [output-buffer-timeout, min-, max-output-buffer-timeout]
	OutputBufferTimeout    time.Duration
	MinOutputBufferTimeout time.Duration
	MaxOutputBufferTimeout time.Duration
	// MaxDeflateLevel caps the level that the client may ask. 6. [max-deflate-level]
	MaxDeflateLevel int
	// NoDeflate and NoSnappy refuse the compressions. [deflate, snappy]
	NoDeflate bool
	NoSnappy  bool
	// TLS returns the configuration for the next handshake, so that certificates
	// can be changed. It is called by many goroutines. nil: no TLS.
	TLS func() *tls.Config
	// TLSRequired refuses every command but IDENTIFY before the upgrade. [tls-required]
	TLSRequired bool
	// Auth asks the auth servers; nil: clients need no rights. [auth-http-address]
	Auth *auth.Client
	// Guard knows the users of the cluster, and whether access control is on. nil: it is off.
	Guard *guard.Guard
	// AllowExtCompatible takes messages whose header has reserved keys only for topics
	// that are not extended, and does not keep the header. [allow-ext-compatible]
	AllowExtCompatible bool
	// MaxConnections bounds the connections, each of which costs two goroutines
	// and some KiB. 0: no bound.
	MaxConnections int
	// MaxPending bounds the answers that one connection may be owed, and
	// MaxPendingBytes the bodies they stand for. 4096, 4 x the larger of
	// MaxBodyBytes and MaxMessageBytes.
	MaxPending      int
	MaxPendingBytes int
	// Memory is charged for what connections hold: bodies, what decoding them takes,
	// compression, and connections as such. nil: no limit.
	Memory *limit.Memory
	// Turns bounds how many connections do at a time what takes a processor for long.
	// nil: no limit.
	Turns *limit.Turns
	// Drops paces what is read only to be dropped. nil: no limit.
	Drops *limit.Drops
	// Creations bounds the topics and channels that clients create. nil: no limit.
	Creations *limit.Creations
	// BodyTimeout is how long a body may take to arrive, with heartbeats or without. While
	// others wait for memory, one that takes longer than slowBody at less than
	// slowRate ends its connection before. 60 s.
	BodyTimeout time.Duration
	// MagicTimeout is how long a new connection may take to say which protocol it
	// speaks. 10 s.
	MagicTimeout time.Duration
	// HandshakeTimeout bounds a TLS handshake. 5 s.
	HandshakeTimeout time.Duration
	// CloseTimeout bounds how long the answers that a closing connection is owed
	// are waited for. 5 s.
	CloseTimeout time.Duration
	// LingerTimeout bounds how long input is dropped after a fatal error, so that
	// the client reads the error and not a reset. 1 s.
	LingerTimeout time.Duration

	quiet time.Duration // after which a client is silent; tests set it
	// TopologyRegion and TopologyZone are told to clients. [topology-region, -zone]
	TopologyRegion string
	TopologyZone   string
}

// Defaults that more than one place needs.
const (
	defaultMaxMessageBytes = 1 << 20
	defaultMaxBodyBytes    = 5 << 20
	defaultMaxReady        = 2500
	DefaultMsgTimeout      = time.Minute
	DefaultMaxMsgTimeout   = 15 * time.Minute
	DefaultMaxDelay        = time.Hour
	DefaultHeartbeat       = 30 * time.Second
)

// withDefaults returns the options with every default in its place.
func (o Options) withDefaults() Options {
	o.Version = cmp.Or(o.Version, "1.3.0")
	o.MaxMessageBytes = cmp.Or(o.MaxMessageBytes, defaultMaxMessageBytes)
	o.MaxBodyBytes = cmp.Or(o.MaxBodyBytes, defaultMaxBodyBytes)
	o.MaxReady = cmp.Or(o.MaxReady, defaultMaxReady)
	o.MsgTimeout = cmp.Or(o.MsgTimeout, DefaultMsgTimeout)
	o.MaxMsgTimeout = cmp.Or(o.MaxMsgTimeout, DefaultMaxMsgTimeout)
	o.MaxDelay = cmp.Or(o.MaxDelay, DefaultMaxDelay)
	o.Heartbeat = cmp.Or(o.Heartbeat, DefaultHeartbeat)
	o.MaxHeartbeat = cmp.Or(o.MaxHeartbeat, time.Minute)
	o.OutputBufferSize = cmp.Or(o.OutputBufferSize, 16<<10)
	o.MaxOutputBufferSize = cmp.Or(o.MaxOutputBufferSize, 64<<10)
	o.OutputBufferTimeout = cmp.Or(o.OutputBufferTimeout, 250*time.Millisecond)
	o.MinOutputBufferTimeout = cmp.Or(o.MinOutputBufferTimeout, 25*time.Millisecond)
	o.MaxOutputBufferTimeout = cmp.Or(o.MaxOutputBufferTimeout, 30*time.Second)
	o.MaxDeflateLevel = cmp.Or(o.MaxDeflateLevel, 6)
	o.MaxPending = cmp.Or(o.MaxPending, 4096)
	o.MaxPendingBytes = cmp.Or(o.MaxPendingBytes, 4*max(o.MaxBodyBytes, o.MaxMessageBytes))
	o.BodyTimeout = cmp.Or(o.BodyTimeout, time.Minute)
	o.MagicTimeout = cmp.Or(o.MagicTimeout, 10*time.Second)
	o.HandshakeTimeout = cmp.Or(o.HandshakeTimeout, 5*time.Second)
	o.CloseTimeout = cmp.Or(o.CloseTimeout, 5*time.Second)
	o.quiet = cmp.Or(o.quiet, quietTime)
	o.LingerTimeout = cmp.Or(o.LingerTimeout, time.Second)
	return o
}

// limits returns what the options mean for IDENTIFY.
func (o *Options) limits() nsq.Limits {
	return nsq.Limits{
		Version: o.Version, MaxReady: o.MaxReady,
		MsgTimeout: o.MsgTimeout, MaxMsgTimeout: o.MaxMsgTimeout,
		Heartbeat: o.Heartbeat, MaxHeartbeat: o.MaxHeartbeat,
		OutputBufferSize: o.OutputBufferSize, MaxOutputBufferSize: o.MaxOutputBufferSize,
		OutputBufferTimeout:    o.OutputBufferTimeout,
		MinOutputBufferTimeout: o.MinOutputBufferTimeout, MaxOutputBufferTimeout: o.MaxOutputBufferTimeout,
		TLS: o.TLS != nil, Snappy: !o.NoSnappy, Deflate: !o.NoDeflate, MaxDeflateLevel: o.MaxDeflateLevel,
		AuthRequired: o.Auth != nil, TopologyRegion: o.TopologyRegion, TopologyZone: o.TopologyZone,
	}
}

func (o *Options) validate() error {
	limits := o.limits()
	if err := limits.Validate(); err != nil {
		return fmt.Errorf("server options: %w", err)
	}
	if o.MaxMessageBytes < 1 || o.MaxBodyBytes < 1 {
		return fmt.Errorf("invalid server options: message limit %d bytes, body limit %d bytes", o.MaxMessageBytes, o.MaxBodyBytes)
	}
	if o.TLSRequired && o.TLS == nil {
		return fmt.Errorf("invalid server options: TLS required but not configured")
	}
	return nil
}
