// Package auth is the client of NSQ's auth servers: it asks over HTTP what a connection may do.
//
// It knows queries and answers. It does not know connections or wire codes and caches nothing:
// a Grant belongs to the connection that requested it.
package auth

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/brokerd/brokerd/internal/jsonbytes"
)

// Options configure a Client. Only Addresses has no default.
type Options struct {
	// Addresses of auth servers: host:port, short for http://host:port/auth, or a whole URL. One is
	// picked at random for each query, the others are tried after it.
	Addresses []string
	// Post sends the query as a JSON body instead of URL parameters.
	Post bool
	// ConnectTimeout and RequestTimeout bound one request; 0: 2 s and 5 s.
	ConnectTimeout time.Duration
	RequestTimeout time.Duration
	// TLS is used with https addresses; nil: the system's roots.
	TLS *tls.Config
}

const (
	defaultConnectTimeout = 2 * time.Second
	defaultRequestTimeout = 5 * time.Second
	maxAnswer             = 4 << 20
	maxIdlePerServer      = 4
)

// Query describes the connection that asks.
type Query struct {
	RemoteIP   string // "" on a unix socket
	TLS        bool
	CommonName string // of the client's certificate
	Secret     string
}

// errNoServer is returned without a configured address.
var errNoServer = errors.New("no auth server configured")

// Client asks auth servers. Its methods are safe for concurrent use.
type Client struct {
	opts Options
	http *http.Client
}

// New returns a Client. It starts nothing.
func New(opts Options) *Client {
	if opts.ConnectTimeout <= 0 {
		opts.ConnectTimeout = defaultConnectTimeout
	}
	if opts.RequestTimeout <= 0 {
		opts.RequestTimeout = defaultRequestTimeout
	}
	dialer := &net.Dialer{Timeout: opts.ConnectTimeout}
	return &Client{opts: opts, http: &http.Client{
		Timeout: opts.RequestTimeout,
		Transport: &http.Transport{
			DialContext:         dialer.DialContext,
			TLSClientConfig:     opts.TLS,
			TLSHandshakeTimeout: opts.ConnectTimeout,
			MaxIdleConnsPerHost: maxIdlePerServer,
			IdleConnTimeout:     time.Minute,
		},
	}}
}

// Close releases idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Grant asks for the rights of a connection, at the time now. It fails when no
// server gives a usable answer, with the errors of all.
func (c *Client) Grant(ctx context.Context, q Query, now time.Time) (*Grant, error) {
	addrs := c.opts.Addresses
	if len(addrs) == 0 {
		return nil, errNoServer
	}
	var failures []error
	start := rand.IntN(len(addrs))
	for i := range addrs {
		addr := addrs[(start+i)%len(addrs)]
		grant, err := c.ask(ctx, endpoint(addr), q)
		if err == nil {
			grant.until = now.Add(time.Duration(grant.ttl) * time.Second)
			return grant, nil
		}
		failures = append(failures, fmt.Errorf("auth server %s: %w", shown(addr), err))
	}
	return nil, errors.Join(failures...)
}

func endpoint(addr string) string {
	if strings.Contains(addr, "://") {
		return addr
	}
	return "http://" + addr + "/auth"
}

// shown returns an address for an error, without user and query, which may be secrets. A password that is not
// escaped may make a part of it look like a port or a path.
func shown(addr string) string {
	u, err := url.Parse(endpoint(addr))
	if err != nil || strings.Contains(u.Path, "@") {
		return "with an invalid address"
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// ask queries one server; one that answers a plain request with 403 and names
// its https port is asked again there.
func (c *Client) ask(ctx context.Context, address string, q Query) (*Grant, error) {
	status, body, err := c.send(ctx, address, q)
	if err != nil {
		return nil, err
	}
	if status == http.StatusForbidden && strings.HasPrefix(address, "http:") {
		if secure, ok := secureAddress(address, body); ok {
			if status, body, err = c.send(ctx, secure, q); err != nil {
				return nil, err
			}
		}
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("status %d", status)
	}
	return parse(body)
}

func (c *Client) send(ctx context.Context, address string, q Query) (int, []byte, error) {
	req, err := c.request(ctx, address, q)
	if err != nil {
		return 0, nil, errAddress
	}
	req.Header.Set("Accept", "application/vnd.nsq; version=1.0")
	res, err := c.http.Do(req)
	if err != nil {
		return 0, nil, withoutAddress(err)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	err = errors.Join(err, res.Body.Close())
	if err == nil && len(body) > maxAnswer {
		err = errors.New("response too long")
	}
	return res.StatusCode, body, err
}

// errAddress takes the place of an error that quotes a part of the address, possibly of its password.
var errAddress = errors.New("the address is no URL: escape characters such as / and % in its password")

// withoutAddress returns the cause of a failed request: the address in the error has the secret.
func withoutAddress(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err
	}
	return err
}

func (c *Client) request(ctx context.Context, address string, q Query) (*http.Request, error) {
	values := url.Values{
		"remote_ip":   {q.RemoteIP},
		"tls":         {strconv.FormatBool(q.TLS)},
		"secret":      {q.Secret},
		"common_name": {q.CommonName},
	}
	if c.opts.Post {
		body, err := json.Marshal(values)
		if err != nil {
			return nil, err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		return req, nil
	}
	sep := "?"
	if strings.Contains(address, "?") {
		sep = "&"
	}
	return http.NewRequestWithContext(ctx, http.MethodGet, address+sep+values.Encode(), nil)
}

// secureAddress returns the https form of address at the port that a refusal
// names.
func secureAddress(address string, refusal []byte) (string, bool) {
	var where struct {
		Port int `json:"https_port"`
	}
	if json.Unmarshal(refusal, &where) != nil || where.Port <= 0 {
		return "", false
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", false
	}
	u.Scheme, u.Host = "https", net.JoinHostPort(u.Hostname(), strconv.Itoa(where.Port))
	return u.String(), true
}

// Grant is what a connection may do, until it expires. It does not change.
type Grant struct {
	Identity    string
	IdentityURL string
	ttl         int64
	until       time.Time
	entries     []entry
}

type entry struct {
	topic              *regexp.Regexp
	channels           []*regexp.Regexp
	publish, subscribe bool
}

// Permissions returns the number of entries.
func (g *Grant) Permissions() int { return len(g.entries) }

// Expired reports whether the grant must be asked for again.
func (g *Grant) Expired(now time.Time) bool { return !now.Before(g.until) }

// Allows reports whether the grant permits subscribing to the channel or, with
// an empty channel, publishing to the topic. Patterns are searched for, not
// anchored. An entry permits nothing unless one of its channel patterns
// matches, and a publish is matched with the empty string: so an entry without
// patterns, or with patterns that need a character, never permits publishing.
func (g *Grant) Allows(topic, channel string) bool {
	for i := range g.entries {
		if g.entries[i].allows(topic, channel) {
			return true
		}
	}
	return false
}

func (e *entry) allows(topic, channel string) bool {
	permitted := e.publish
	if channel != "" {
		permitted = e.subscribe
	}
	if !permitted || !e.topic.MatchString(topic) {
		return false
	}
	for _, pattern := range e.channels {
		if pattern.MatchString(channel) {
			return true
		}
	}
	return false
}

type answer struct {
	TTL            int64  `json:"ttl"`
	Identity       string `json:"identity"`
	IdentityURL    string `json:"identity_url"`
	Authorizations []struct {
		Topic       string   `json:"topic"`
		Channels    []string `json:"channels"`
		Permissions []string `json:"permissions"`
	} `json:"authorizations"`
}

// maxTTL keeps the expiry within what a time can hold.
const maxTTL = 100 * 365 * 24 * 3600

// parse reads a server's answer.
func parse(body []byte) (*Grant, error) {
	var a answer
	if err := jsonbytes.Unmarshal(body, &a); err != nil {
		return nil, fmt.Errorf("decode response: %w", err)
	}
	if a.TTL <= 0 {
		return nil, fmt.Errorf("ttl %d is not positive", a.TTL)
	}
	g := &Grant{Identity: a.Identity, IdentityURL: a.IdentityURL, ttl: min(a.TTL, maxTTL)}
	for _, auth := range a.Authorizations {
		var e entry
		for _, p := range auth.Permissions {
			switch p {
			case "publish":
				e.publish = true
			case "subscribe":
				e.subscribe = true
			default:
				return nil, fmt.Errorf("unknown permission %q", p)
			}
		}
		var err error
		if e.topic, err = regexp.Compile(auth.Topic); err != nil {
			return nil, fmt.Errorf("topic pattern: %w", err)
		}
		for _, text := range auth.Channels {
			pattern, err := regexp.Compile(text)
			if err != nil {
				return nil, fmt.Errorf("channel pattern: %w", err)
			}
			e.channels = append(e.channels, pattern)
		}
		g.entries = append(g.entries, e)
	}
	return g, nil
}
