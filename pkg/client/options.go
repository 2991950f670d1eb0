package client

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Defaults of the options.
const (
	DefaultDialTimeout      = 5 * time.Second
	DefaultPublishTimeout   = 30 * time.Second
	DefaultHeartbeat        = 10 * time.Second
	DefaultMaxInFlightBytes = 16 << 20
	DefaultRefresh          = 15 * time.Second
	DefaultMaxMessageBytes  = 64 << 20
	DefaultMinReconnect     = 100 * time.Millisecond
	DefaultMaxReconnect     = 5 * time.Second
)

// Limits of the heartbeat that brokers accept.
const (
	minHeartbeat = time.Second
	maxHeartbeat = time.Minute
)

// Dialer opens a connection; (*net.Dialer).DialContext is one.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// config holds the options of a Client.
type config struct {
	nodes   []string // host:port
	lookups []string // base URLs

	clientID, hostname, userAgent, secret string

	tls          *tls.Config
	compression  compression
	deflateLevel int

	dial           Dialer
	http           *http.Client
	dialTimeout    time.Duration
	publishTimeout time.Duration
	heartbeat      time.Duration
	refresh        time.Duration
	minReconnect   time.Duration
	maxReconnect   time.Duration
	maxInFlight    int64
	maxMessage     int

	dedup    bool
	producer string // of automatic dedup ids

	log   *slog.Logger
	hooks Hooks
}

type compression uint8

const (
	plain compression = iota
	snappyStream
	deflateStream
)

// Option configures a Client.
type Option func(*config)

// WithClientID sets the client name shown by brokers; the default is the host name.
func WithClientID(id string) Option { return func(c *config) { c.clientID = id } }

// WithUserAgent sets the program name shown by brokers.
func WithUserAgent(agent string) Option { return func(c *config) { c.userAgent = agent } }

// WithSecret sets the secret for brokers that require AUTH. A token of brokerd is also sent to lookups,
// but with WithTLS only to those at https.
func WithSecret(secret string) Option { return func(c *config) { c.secret = secret } }

// WithTLS upgrades every connection to TLS; a broker without TLS is an error. An empty
// ServerName means the host of the address.
func WithTLS(t *tls.Config) Option { return func(c *config) { c.tls = t } }

// WithSnappy compresses connections with snappy if the broker supports it.
func WithSnappy() Option { return func(c *config) { c.compression = snappyStream } }

// WithDeflate compresses connections with deflate at a level from 1 to 9 if the broker supports
// it; it takes much more CPU time than snappy for a slightly better ratio.
func WithDeflate(level int) Option {
	return func(c *config) { c.compression, c.deflateLevel = deflateStream, level }
}

// WithDedup assigns a dedup id to each message without a DedupID or a delay, so that publishes
// with uncertain outcome can be retried safely: the broker stores the message once within the
// topic's window. The topic must exist, on a broker that supports PUB_EXT and dedup ids; the
// first message with an id enables the window.
func WithDedup() Option { return func(c *config) { c.dedup = true } }

// WithDialer sets the dialer of broker connections.
func WithDialer(d Dialer) Option { return func(c *config) { c.dial = d } }

// WithHTTPClient sets the HTTP client for lookups.
func WithHTTPClient(h *http.Client) Option { return func(c *config) { c.http = h } }

// WithDialTimeout limits the time for connecting and identifying.
func WithDialTimeout(d time.Duration) Option { return func(c *config) { c.dialTimeout = d } }

// WithPublishTimeout limits how long a publish is retried that was refused or found no broker. A
// publish that was sent to a broker waits for its answer as long as the connection and the context
// last.
func WithPublishTimeout(d time.Duration) Option { return func(c *config) { c.publishTimeout = d } }

// WithHeartbeat sets the heartbeat interval requested of brokers, from 1 s to 1 min. A
// connection without traffic for two intervals is closed.
func WithHeartbeat(d time.Duration) Option { return func(c *config) { c.heartbeat = d } }

// WithRefresh sets how often lookups are repeated if nothing indicates a change; failures trigger
// a lookup at once.
func WithRefresh(d time.Duration) Option { return func(c *config) { c.refresh = d } }

// WithReconnect sets the delay before reconnecting to a failed node: least after the first
// failure, doubled after each further one, up to most. A random part of up to a half is subtracted
// from each delay.
func WithReconnect(least, most time.Duration) Option {
	return func(c *config) { c.minReconnect, c.maxReconnect = least, most }
}

// WithMaxInFlightBytes limits the bytes of unanswered publishes. Further publishes wait.
func WithMaxInFlightBytes(n int64) Option { return func(c *config) { c.maxInFlight = n } }

// WithMaxMessageBytes limits the size of received messages. The default is the largest size that a
// broker can be configured to accept.
func WithMaxMessageBytes(n int) Option { return func(c *config) { c.maxMessage = n } }

// WithLogger sets the logger for connection events. By default nothing is logged.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.log = l } }

// WithHooks sets the hooks.
func WithHooks(h Hooks) Option { return func(c *config) { c.hooks = h } }

// configure applies options to the defaults and validates them.
func configure(addresses []string, options []Option) (*config, error) {
	hostname, _ := os.Hostname() // only for display
	c := &config{
		clientID: hostname, hostname: hostname, userAgent: "brokerd-client", deflateLevel: 6,
		http:        &http.Client{Timeout: DefaultDialTimeout},
		dialTimeout: DefaultDialTimeout, publishTimeout: DefaultPublishTimeout, heartbeat: DefaultHeartbeat,
		refresh: DefaultRefresh, minReconnect: DefaultMinReconnect, maxReconnect: DefaultMaxReconnect,
		maxInFlight: DefaultMaxInFlightBytes, maxMessage: DefaultMaxMessageBytes,
		log: slog.New(slog.DiscardHandler), producer: rand.Text(),
	}
	c.dial = (&net.Dialer{}).DialContext
	for _, o := range options {
		o(c)
	}
	return c, errors.Join(c.locate(addresses), c.validate())
}

// locate sorts addresses into nodes and lookups.
func (c *config) locate(addresses []string) error {
	for _, a := range addresses {
		if strings.Contains(a, "://") {
			u, err := url.Parse(a)
			if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
				return fmt.Errorf("client: %q is neither host:port of a broker nor an http URL of a lookup", a)
			}
			c.lookups = append(c.lookups, u.Scheme+"://"+u.Host)
			continue
		}
		if _, _, err := net.SplitHostPort(a); err != nil {
			return fmt.Errorf("client: %q is neither host:port of a broker nor an http URL of a lookup: %w", a, err)
		}
		c.nodes = append(c.nodes, a)
	}
	if len(addresses) == 0 {
		return errors.New("client: address of a broker or a lookup required")
	}
	return nil
}

func (c *config) validate() error {
	switch {
	case c.heartbeat < minHeartbeat || c.heartbeat > maxHeartbeat:
		return fmt.Errorf("client: heartbeat of %v is not between %v and %v", c.heartbeat, minHeartbeat, maxHeartbeat)
	case c.deflateLevel < 1 || c.deflateLevel > 9:
		return fmt.Errorf("client: deflate level of %d is not between 1 and 9", c.deflateLevel)
	case c.dialTimeout <= 0 || c.publishTimeout <= 0 || c.refresh <= 0 || c.minReconnect <= 0 || c.maxReconnect < c.minReconnect:
		return errors.New("client: timeouts must be above 0")
	case c.maxInFlight <= 0 || c.maxMessage <= 0:
		return errors.New("client: limits must be above 0")
	case c.dial == nil || c.http == nil || c.log == nil:
		return errors.New("client: dialer, HTTP client and logger must not be nil")
	}
	return nil
}

// Hooks report the client's activity, for metrics. They are called by the client's goroutines,
// some of them often and concurrently, and must not block. Nil hooks are not called.
type Hooks struct {
	// Connected: a connection to a broker was opened. Disconnected: one has ended; err is nil if
	// the client closed it.
	Connected    func(address string)
	Disconnected func(address string, err error)
	// Published: a publish has ended; err is the error returned to its caller.
	Published func(topic string, messages int, took time.Duration, err error)
	// Retried: a publish is retried because of why.
	Retried func(topic string, why error)
	// Received: a message has arrived. Answered: it was finished (true) or requeued.
	Received func(topic, channel string, m *Message)
	Answered func(topic, channel string, finished bool)
	// BackedOff: a consumer pauses after handler failures.
	BackedOff func(topic, channel string, pause time.Duration)
}
