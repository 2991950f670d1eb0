package nsqlink

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/client"
	"github.com/brokerd/brokerd/pkg/failure"
)

// Options define how a topic is reached.
type Options struct {
	API       *api.Client
	Nodes     []string     // HTTP addresses of nodes; none: the default
	Secure    bool         // nodes serve HTTPS
	NSQ       []string     // NSQ addresses; none: those of the nodes that the cluster names
	HTTP      *http.Client // for lookups; nil: the default
	Secret    string
	UserAgent string
	Timeout   time.Duration // of a request, a publish and a connection
	Warn      io.Writer     // gets a line about each lost connection; for several goroutines
}

// Topic is a topic that is published to, or consumed, over the NSQ protocol.
type Topic struct {
	Name  string
	Found *api.Topic // as it was before the first connection

	o Options
}

// Find returns a topic, which exists, or is created if create is set.
func Find(ctx context.Context, name string, create bool, o Options) (*Topic, error) {
	found, err := query(ctx, o.Timeout, func(ctx context.Context) (*api.Topic, error) { return o.API.Topic(ctx, name) })
	if create && api.CodeOf(err) == failure.NotFound {
		found, err = query(ctx, o.Timeout, func(ctx context.Context) (*api.Topic, error) {
			return o.API.CreateTopic(ctx, api.CreateTopic{Name: name})
		})
	}
	if err != nil {
		return nil, err
	}
	return &Topic{Name: name, Found: found, o: o}, nil
}

// query sends a request.
func query[T any](ctx context.Context, timeout time.Duration, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return f(ctx)
}

// Say writes a line for the user.
func (t *Topic) Say(format string, args ...any) {
	_, _ = fmt.Fprintf(t.o.Warn, format+"\n", args...) // an error of stderr cannot be reported
}

// Clients creates n clients for publishing. They connect when they are used.
func (t *Topic) Clients(ctx context.Context, n int) ([]*client.Client, error) {
	at, err := t.places(ctx)
	if err != nil {
		return nil, err
	}
	var all []*client.Client
	for range n {
		c, err := t.newClient(at, &linkState{})
		if err != nil {
			CloseAll(ctx, all)
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// closeTimeout limits the time for closing clients.
const closeTimeout = 2 * time.Second

// CloseAll closes clients of Clients, when nothing is in progress.
func CloseAll(ctx context.Context, clients []*client.Client) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	for _, c := range clients {
		_ = c.Close(ctx) // only disconnects
	}
}

// places returns the addresses for a client: the given NSQ addresses, or else the HTTP addresses
// of all nodes, which return the leaders.
func (t *Topic) places(ctx context.Context) ([]string, error) {
	for _, a := range t.o.NSQ {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return nil, api.Errorf(failure.Usage, "%q is not HOST:PORT", a)
		}
	}
	if len(t.o.NSQ) > 0 {
		return t.o.NSQ, nil
	}
	cluster, err := query(ctx, t.o.Timeout, t.o.API.Cluster)
	if err != nil {
		return nil, err
	}
	at := slices.Clone(t.o.Nodes)
	if len(at) == 0 {
		at = []string{api.DefaultAddress}
	}
	for i, a := range at {
		if !strings.Contains(a, "://") {
			at[i] = "http://" + a
		}
	}
	for _, n := range cluster.Nodes {
		t.o.API.Know(n.HTTPAddress)
		if url := n.URL(t.o.Secure); url != "" {
			at = append(at, url)
		}
	}
	return at, nil
}

// newClient creates a client that reports lost and restored connections, and notifies links of
// each connection that is opened or fails to open.
func (t *Topic) newClient(at []string, links *linkState) (*client.Client, error) {
	links.topic = t
	options := []client.Option{
		client.WithClientID("brokerctl"), client.WithUserAgent(t.o.UserAgent), client.WithSecret(t.o.Secret),
		client.WithPublishTimeout(t.o.Timeout), client.WithDialTimeout(t.o.Timeout),
		client.WithHooks(client.Hooks{Disconnected: links.disconnected, Connected: links.connected}),
	}
	if t.o.HTTP != nil {
		options = append(options, client.WithHTTPClient(t.o.HTTP))
	}
	c, err := client.New(at, options...)
	if err != nil {
		return nil, api.Errorf(failure.Usage, "%w", err)
	}
	return c, nil
}

// linkState is the state of the connections of a client.
type linkState struct {
	topic *Topic
	ended func(ever bool, err error) // called when a connection is lost, or could not be opened (ever is false); optional
	first func()                     // called when the first connection is open; optional

	mu   sync.Mutex // guards what follows
	up   map[string]int
	ever bool // a connection was open
	lost bool // it was lost
}

func (l *linkState) connected(address string) {
	l.mu.Lock()
	again, first := l.lost, !l.ever
	l.lost, l.ever = false, true
	if l.up == nil {
		l.up = map[string]int{}
	}
	l.up[address]++
	l.mu.Unlock()
	if again {
		l.topic.Say("connected to %s", address)
	}
	if first && l.first != nil {
		l.first()
	}
}

func (l *linkState) disconnected(address string, err error) {
	if err == nil {
		return // closed by this client
	}
	l.mu.Lock()
	stood, ever := l.up[address] > 0, l.ever
	if stood {
		l.up[address]--
		l.lost = true
	}
	l.mu.Unlock()
	if stood {
		l.topic.Say("connection to %s lost (%v): looking up the leaders of %s", address, err, l.topic.Name)
	}
	if l.ended != nil && (stood || !ever) {
		l.ended(ever, fmt.Errorf("no NSQ connection to %s: %w", address, err))
	}
}
