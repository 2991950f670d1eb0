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

// Broker is what sessions use of a node. All fields are required.
type Broker struct {
	Publisher
	Subscriber
	TopicReader
}

// Publisher stores messages.
type Publisher interface {
	// Publish copies the messages before it returns. It may block until ctx ends, for back-pressure
	// or to create the topic. It calls p.Done exactly once, perhaps before it returns, from any
	// goroutine.
	Publish(ctx context.Context, p publish.Request)
}

// Subscriber subscribes clients to channels.
type Subscriber interface {
	// Subscribe joins a channel. It may block until ctx ends, to create the channel.
	Subscribe(ctx context.Context, s consume.Subscribe) (Subscription, error)
}

// TopicReader knows the topics of the cluster.
type TopicReader interface {
	// Topic returns a topic of the cluster, which must not be changed, or failure.TopicNotFound.
	Topic(name string) (*meta.Topic, error)
}

// Answerer answers messages in flight. The text of its errors is sent to the client.
type Answerer interface {
	Finish(id seq.MessageID) error
	Requeue(id seq.MessageID, delay time.Duration) error
	Touch(id seq.MessageID) error
}

// Prospect predicts the result of a Take.
type Prospect interface {
	// AtHand reports whether Take finds the next message without waiting for a disk or another
	// node. The rules for calling Take apply.
	AtHand() bool
	// Waits reports that Take found nothing although there was room: Wake is called, or has been
	// called, when there is a message.
	Waits() bool
}

// Subscription is a place in a channel. One goroutine at a time calls Take, AtHand and Deliverable,
// and Close after the last of these calls. The other methods may be called concurrently.
type Subscription interface {
	// Take delivers at most min(max, ready - in flight) messages. It calls emit for each, with
	// slices that are valid during the call. If emit returns an error, Take ends and returns it,
	// and that message counts as not delivered. 0 without an error means that there is no message
	// now: Wake will be called.
	Take(now time.Time, max int, emit func(*topic.Delivery) error) (int, error)
	// Deliverable reports whether everything that Take has delivered since the last call of
	// Deliverable may still be written to the client at now. If not, the caller writes nothing of
	// it and calls Close.
	Deliverable(now time.Time) bool
	Prospect
	// Numbering returns how clients see the messages' ids. It does not change.
	Numbering() seq.Numbering
	// SetReady sets how many messages may be in flight.
	SetReady(n int)
	Answerer
	// StopDelivery makes every later Take deliver nothing.
	StopDelivery()
	// Close leaves the channel and returns the messages that are in flight to it.
	Close()
}

// ErrClustered is returned if a client may not create topics explicitly.
var ErrClustered = fate.Refuse("topics of a cluster are created by its operators")

// Options configure a Server. The zero value of a field means its default. The names in brackets
// are nsqd's options.
type Options struct {
	// Limits are those for IDENTIFY. The server sets their booleans.
	nsq.Limits
	// Cluster is the cluster's id, on which the numbering of messages depends.
	Cluster string
	// CreateTopic makes sure that a topic has a number of partitions, for INTERNAL_CREATE_TOPIC.
	// ErrClustered: the cluster has several nodes, and only operators create topics. nil: always
	// ErrClustered.
	CreateTopic func(ctx context.Context, name string, partitions int, ext bool) error
	// MaxMessageBytes limits the body of one message. 1 MiB. [max-msg-size]
	MaxMessageBytes int
	// MaxBodyBytes limits the body of an MPUB. The body of a PUB or DPUB is a message; that of
	// IDENTIFY or AUTH has at most maxIntroduction bytes. 5 MiB. [max-body-size]
	MaxBodyBytes int
	// MaxDelay limits the delays of REQ, which are reduced to it, and of DPUB, which are refused
	// beyond it. 1 h. [max-req-timeout]
	MaxDelay time.Duration
	// NoDeflate and NoSnappy refuse the compressions. [deflate, snappy]
	NoDeflate bool
	NoSnappy  bool
	// TLS returns the configuration for the next handshake, so that certificates
	// can be changed. It is called by many goroutines. nil: no TLS.
	TLS func() *tls.Config
	// TLSRequired refuses all commands except IDENTIFY before the upgrade. [tls-required]
	TLSRequired bool
	// Auth queries the auth servers; nil: there are none. [auth-http-address]
	Auth *auth.Client
	// Guard knows the users of the cluster, and whether access control is on. nil: it is off.
	Guard *guard.Guard
	// AllowExtCompatible accepts messages whose header has reserved keys only for topics that are
	// not extended, and drops the header. [allow-ext-compatible]
	AllowExtCompatible bool
	// MaxConnections limits the connections. Each costs two goroutines and some KiB. 0: no limit.
	MaxConnections int
	// MaxPending limits the answers that one connection may be owed. 4096.
	MaxPending int
	// Memory is charged for what connections hold: bodies, the memory to decode them, compression,
	// and the connections themselves. nil: no limit.
	Memory *limit.Memory
	// Turns limits how many connections at a time do work that takes much processor time. nil: no
	// limit.
	Turns *limit.Turns
	// Drops limits the rate at which input is read only to be dropped. nil: no limit.
	Drops *limit.Drops
	// Creations limits the topics and channels that clients create. nil: no limit.
	Creations *limit.Creations
	// HandshakeTimeout limits a TLS handshake. 5 s.
	HandshakeTimeout time.Duration
	// CloseTimeout limits how long a closing connection waits for the answers that it is owed. 5 s.
	CloseTimeout time.Duration
	// LingerTimeout limits how long input is dropped after a fatal error, so that the client reads
	// the error and gets no reset. 1 s.
	LingerTimeout time.Duration

	quiet time.Duration // silence after which a client counts as silent; tests set it
}

// Defaults that several places use.
const (
	defaultMaxMessageBytes = 1 << 20
	defaultMaxBodyBytes    = 5 << 20
	defaultMaxReady        = 2500
	DefaultMsgTimeout      = time.Minute
	DefaultMaxMsgTimeout   = 15 * time.Minute
	DefaultMaxDelay        = time.Hour
	DefaultHeartbeat       = 30 * time.Second
)

// bodyTimeout is how long a body may take to arrive, with heartbeats or without. While other
// connections wait for memory, a body that takes longer than slowBody at less than slowRate ends its
// connection earlier.
const bodyTimeout = time.Minute

// magicTimeout is how long a new connection may take to send the protocol's magic bytes.
const magicTimeout = 10 * time.Second

// maxPendingBytes limits the bodies of the publishes whose answers one connection may be owed.
func (o *Options) maxPendingBytes() int { return 4 * max(o.MaxBodyBytes, o.MaxMessageBytes) }

// withDefaults returns the options with all defaults set.
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
	o.HandshakeTimeout = cmp.Or(o.HandshakeTimeout, 5*time.Second)
	o.CloseTimeout = cmp.Or(o.CloseTimeout, 5*time.Second)
	o.quiet = cmp.Or(o.quiet, quietTime)
	o.LingerTimeout = cmp.Or(o.LingerTimeout, time.Second)
	return o
}

// limits returns the limits for IDENTIFY.
func (o *Options) limits() nsq.Limits {
	l := o.Limits
	l.TLS, l.Snappy, l.Deflate, l.AuthRequired = o.TLS != nil, !o.NoSnappy, !o.NoDeflate, o.Auth != nil
	return l
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
