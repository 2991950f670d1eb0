package admin

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/brokerd/brokerd/pkg/broker"
	"github.com/brokerd/brokerd/pkg/limit"
)

// Default limits, those of nsqd where it has them.
const (
	DefaultMaxMessage     = 1 << 20          // bytes of one message
	DefaultMaxBody        = 5 << 20          // bytes of a body of many messages
	DefaultMaxDefer       = time.Hour        // the longest delay of a message
	DefaultPublishTimeout = 30 * time.Second // until a publish is answered as uncertain
	DefaultMaxPeek        = 1000             // messages in one answer
)

// Limits bounds what one request, or all of them, may take. Zero fields have
// the defaults.
type Limits struct {
	// MaxMessage is the largest message in bytes (nsqd: max-msg-size).
	MaxMessage int
	// MaxBody is the largest body of an mpub in bytes (nsqd: max-body-size).
	MaxBody int
	// MaxDefer is the longest delay of a message (nsqd: max-req-timeout).
	MaxDefer time.Duration
	// PublishTimeout is how long a publish is waited for. After it the client is
	// told that the outcome is not known.
	PublishTimeout time.Duration
	// MaxPeek is the most messages of one peek.
	MaxPeek int
}

func (l Limits) withDefaults() Limits {
	l.MaxMessage = cmp.Or(l.MaxMessage, DefaultMaxMessage)
	l.MaxBody = cmp.Or(l.MaxBody, DefaultMaxBody)
	l.MaxDefer = cmp.Or(l.MaxDefer, DefaultMaxDefer)
	l.PublishTimeout = cmp.Or(l.PublishTimeout, DefaultPublishTimeout)
	l.MaxPeek = cmp.Or(l.MaxPeek, DefaultMaxPeek)
	return l
}

// drainBytes returns how many bytes are read of a body that is refused.
func (l Limits) drainBytes() int64 { return max(minDrain, 2*jsonGrowth*int64(l.MaxBody)) }

// Identity is what the node says of itself in /info, /stats and /lookup.
type Identity struct {
	// Version is the version that clients see. Tools parse it, so it must be a
	// semantic version.
	Version          string
	Hostname         string
	BroadcastAddress string
	// Ports are those of the listeners; -1: a unix socket, or none.
	TCPPort, HTTPPort, HTTPSPort int
	Zone, Region                 string
	Started                      time.Time
	// What IDENTIFY accepts at most.
	MaxHeartbeatInterval   time.Duration
	MaxOutputBufferSize    int64
	MaxOutputBufferTimeout time.Duration
	MaxDeflateLevel        int
}

// Exchange is one request that was answered.
type Exchange struct {
	Route    string // the pattern of the path, never the path itself; "other" for an unknown one
	Status   int
	Duration time.Duration
}

// Options configures a Server. Broker is required; what else is zero is off, or
// has the default that its type names.
type Options struct {
	Broker   Broker
	Identity Identity
	Limits   Limits
	// Memory is charged for bodies, and for answers with messages. nil: no limit.
	Memory *limit.Memory
	// Turns bounds how many requests do at a time what takes a processor for long. nil:
	// there is no bound.
	Turns *limit.Turns
	// Clients returns all connections of the node, for the producers in /stats.
	Clients func() []broker.ClientStats
	// Config serves /config. nil: no option is known.
	Config Config
	// ConfigFrom is where clients come from that may change options.
	ConfigFrom Networks
	// Metrics serves /metrics.
	Metrics http.Handler
	// Observe is told of every request. It must not block.
	Observe func(Exchange)
	// Startup returns how much of the start is done, from 0 to 1. nil: all.
	Startup func() float64
	// Live says why the process should be killed. nil, or an empty answer: it
	// should not. It must not depend on other nodes.
	Live func() []broker.HealthReason
	// TLSRequired answers every request without TLS with TLS_REQUIRED, but for
	// those of probes: what probes has seldom a certificate.
	TLSRequired bool
	// MemQueueSize tells what of a depth counts as backend_depth.
	MemQueueSize MemQueueSize
	// PlainMetrics has /metrics answer without TLS, too, where it is required.
	PlainMetrics bool
	// Debug serves /debug/pprof, /debug/setblockrate and /debug/freememory.
	Debug bool
	// Logger gets the panics of handlers. nil: they are not logged.
	Logger *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	if o.Broker == nil {
		return o, errors.New("admin: no broker")
	}
	o.Limits = o.Limits.withDefaults()
	if o.Clients == nil {
		o.Clients = func() []broker.ClientStats { return nil }
	}
	if o.Config == nil {
		o.Config = noConfig{}
	}
	if o.Observe == nil {
		o.Observe = func(Exchange) {}
	}
	if o.Startup == nil {
		o.Startup = func() float64 { return 1 }
	}
	if o.Live == nil {
		o.Live = func() []broker.HealthReason { return nil }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// noConfig knows no option.
type noConfig struct{}

func (noConfig) Option(string) (any, bool)      { return nil, false }
func (noConfig) SetOption(string, []byte) error { return ErrUnknownOption }
