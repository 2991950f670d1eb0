package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/brokerd/brokerd/internal/config"
	"github.com/brokerd/brokerd/internal/lookupd"
	"github.com/brokerd/brokerd/pkg/admin"
	"github.com/brokerd/brokerd/pkg/broker"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/metrics"
	"github.com/brokerd/brokerd/pkg/server"
	"github.com/brokerd/brokerd/pkg/server/auth"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// brokerNode is the node that the program runs: the broker, what it stands on,
// and what it is reached through.
type brokerNode struct {
	c       nodeConfig
	store   *raftstore.Store
	broker  *broker.Broker
	server  *server.Server
	admin   *admin.Server
	metrics *metrics.Metrics
	https   []*http.Server // one for each HTTP listener

	ready  chan struct{}
	failed chan error // why the node cannot go on; holds one

	serving   context.Context
	stop      context.CancelFunc
	closing   sync.Once
	closed    atomic.Bool
	draining  atomic.Bool
	closeErr  error
	startedAt time.Time
}

// errJoin refuses to start alone where that is not what was asked for.
var errJoin = errors.New("join: a node cannot join others yet; leave it empty")

// openBroker opens a brokerNode: the metadata, then the partitions that it
// gives to this node, then what serves them.
func openBroker(ctx context.Context, c nodeConfig) (node, error) {
	if len(c.Options.Cluster.Join) > 0 {
		return nil, exitWith(exitConfig, errJoin)
	}
	n := &brokerNode{c: c, ready: make(chan struct{}), failed: make(chan error, 1), startedAt: time.Now()}
	n.serving, n.stop = context.WithCancel(context.WithoutCancel(ctx))
	n.metrics = n.newMetrics()
	if err := n.openStore(ctx); err != nil {
		return nil, err
	}
	if err := n.openServers(ctx); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

func (n *brokerNode) openStore(ctx context.Context) (err error) {
	o := &n.c.Options
	n.store, err = raftstore.Open(raftstore.Options{
		Dir: metaDir(o.DataDir), NodeID: meta.NodeID(o.NodeID), Address: n.c.Advertise.Cluster,
		Bootstrap: true, Logger: n.c.Log,
	})
	if err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	if err := n.store.WaitLeader(ctx); err != nil {
		return errors.Join(fmt.Errorf("metadata: %w", err), n.store.Close())
	}
	return nil
}

func (n *brokerNode) openServers(ctx context.Context) (err error) {
	if n.broker, err = broker.Open(ctx, n.brokerOptions()); err != nil {
		return err
	}
	if n.server, err = server.New(n.serverOptions(), sessions{n.broker}, n.c.Log); err != nil {
		return err
	}
	if n.admin, err = admin.New(n.adminOptions()); err != nil {
		return err
	}
	for range n.httpListeners() {
		n.https = append(n.https, admin.NewHTTPServer(n.admin.Handler(), n.c.Log))
	}
	for range n.c.Listeners.Lookup {
		n.https = append(n.https, admin.NewHTTPServer(n.admin.LookupHandler(), n.c.Log))
	}
	return nil
}

// httpListeners are those that serve the whole HTTP API.
func (n *brokerNode) httpListeners() []net.Listener {
	return slices.Concat(n.c.Listeners.HTTP, n.c.Listeners.HTTPS)
}

func (n *brokerNode) brokerOptions() broker.Options {
	o := &n.c.Options
	hostname, _ := os.Hostname() // "" is told where there is none
	return broker.Options{
		Self: meta.NodeID(o.NodeID), FS: vfs.OS{}, DataDir: o.DataDir, Meta: n.store, Logger: n.c.Log,
		Node: meta.Node{
			Hostname: hostname, TCPAddress: n.c.Advertise.TCP, HTTPAddress: n.c.Advertise.HTTP, HTTPSAddress: n.c.Advertise.HTTPS,
			ClusterAddress: n.c.Advertise.Cluster, Zone: o.Zone, Version: version, BootID: bootID(),
		},
		Log:              commitlog.Options{SegmentBytes: int64(o.Topics.SegmentSize), OnSync: n.metrics.Histograms().ObserveFsync},
		Observer:         n.metrics.Histograms(),
		AutoCreateTopics: o.Topics.AutoCreate,
		TopicDefaults: meta.TopicConfig{
			Partitions: o.Topics.Partitions, Sync: syncPolicy(&o.Topics),
			RetentionAge: o.Topics.Retention, RetentionBytes: int64(o.Topics.RetentionBytes),
		},
		KnownChannels:       n.c.Lookupds.Channels,
		MaxChannelConsumers: o.Limits.MaxChannelConsumers, MaxMsgTimeout: o.Limits.MaxMsgTimeout,
		DiskReserve: uint64(o.Topics.DiskReserve),
		Fatal: func(err error) {
			select {
			case n.failed <- err:
			default:
			}
		},
	}
}

// metaDir is where a node keeps the metadata.
func metaDir(dataDir string) string { return filepath.Join(dataDir, "meta") }

// bootID names this boot of the kernel: what was not synced before it is gone.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

func syncPolicy(t *config.Topics) meta.SyncPolicy {
	p := meta.SyncPolicy{Every: t.Sync.Every}
	if p.Every != 1 {
		p.Interval = t.SyncInterval
	}
	return p
}

func (n *brokerNode) serverOptions() server.Options {
	l, t := &n.c.Options.Limits, &n.c.Options.TLS
	o := server.Options{
		Version: n.c.Version, MaxMessageBytes: int(l.MaxMsgSize), MaxBodyBytes: int(l.MaxBodySize), MaxReady: l.MaxRdyCount,
		MsgTimeout: l.MsgTimeout, MaxMsgTimeout: l.MaxMsgTimeout, MaxDelay: l.MaxReqTimeout,
		MaxHeartbeat: l.MaxHeartbeatInterval, MaxOutputBufferSize: int(l.MaxOutputBufferSize),
		OutputBufferTimeout: l.OutputBufferTimeout, MinOutputBufferTimeout: l.MinOutputBufferTimeout,
		MaxOutputBufferTimeout: l.MaxOutputBufferTimeout, MaxDeflateLevel: l.MaxDeflateLevel,
		NoDeflate: !l.Deflate, NoSnappy: !l.Snappy, MaxConnections: l.MaxConnections,
		TLSRequired: t.Required != "false", TopologyRegion: n.c.Options.Region, TopologyZone: n.c.Options.Zone,
	}
	if n.c.TLS != nil {
		o.TLS = func() *tls.Config { return n.c.TLS }
	}
	if a := &n.c.Options.Auth; len(a.HTTPAddresses) > 0 {
		o.Auth = auth.New(auth.Options{
			Addresses: a.HTTPAddresses, Post: a.RequestMethod == "post",
			ConnectTimeout: a.ConnectTimeout, RequestTimeout: a.RequestTimeout,
		})
	}
	return o
}

func (n *brokerNode) adminOptions() admin.Options {
	o, a := &n.c.Options, n.c.Advertise
	hostname, _ := os.Hostname()
	return admin.Options{
		Broker: n.broker,
		Identity: admin.Identity{
			Version: n.c.Version, Hostname: hostname, BroadcastAddress: hostOf(a.TCP, a.Host),
			TCPPort: portOf(a.TCP), HTTPPort: portOf(a.HTTP), HTTPSPort: portOf(a.HTTPS), Zone: o.Zone, Region: o.Region,
			Started: n.startedAt, MaxHeartbeatInterval: o.Limits.MaxHeartbeatInterval,
			MaxOutputBufferSize: int64(o.Limits.MaxOutputBufferSize), MaxOutputBufferTimeout: o.Limits.MaxOutputBufferTimeout,
			MaxDeflateLevel: o.Limits.MaxDeflateLevel,
		},
		Limits:  admin.Limits{MaxMessage: int(o.Limits.MaxMsgSize), MaxBody: int(o.Limits.MaxBodySize), MaxDefer: o.Limits.MaxReqTimeout},
		Clients: n.server.Clients, TLSRequired: o.TLS.Required == "true", Debug: o.Process.Pprof, Logger: n.c.Log,
		Live: n.live, Metrics: n.metrics.Handler(),
		Observe: func(e admin.Exchange) { n.metrics.Histograms().ObserveHTTP(e.Route, e.Status, e.Duration) },
		Config:  &runtimeConfig{options: *o, lookupds: n.c.Lookupds, level: n.c.Level},
	}
}

func (n *brokerNode) live() []broker.HealthReason {
	if err := n.Alive(); err != nil {
		return []broker.HealthReason{{Code: "failed", Count: 1, What: err.Error()}}
	}
	return nil
}

// Serve implements node.
func (n *brokerNode) Serve() error {
	g, ctx := errgroup.WithContext(n.serving)
	ls := n.c.Listeners
	for _, l := range ls.TCP {
		g.Go(func() error { return ignoreClosed(n.server.Serve(ctx, l)) })
	}
	for i, l := range slices.Concat(n.httpListeners(), ls.Lookup) {
		g.Go(func() error { return ignoreClosed(n.https[i].Serve(l)) })
	}
	g.Go(func() error {
		select {
		case err := <-n.failed:
			return exitWith(exitDisk, err)
		case <-n.store.Failed():
			return exitWith(exitDisk, fmt.Errorf("metadata: %w", n.store.Err()))
		case <-ctx.Done():
			return nil
		}
	})
	close(n.ready)
	err := g.Wait()
	if n.closed.Load() {
		return nil
	}
	return err
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, server.ErrClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Ready implements node.
func (n *brokerNode) Ready() <-chan struct{} { return n.ready }

// Alive implements node.
func (n *brokerNode) Alive() error { return n.store.Err() }

// Status implements node.
func (n *brokerNode) Status() string {
	return fmt.Sprintf("serving %d topics to %d connections", len(n.broker.Topics()), len(n.server.Clients()))
}

// Reload implements node.
func (n *brokerNode) Reload(config.Options) {}

// Catalog implements node.
func (n *brokerNode) Catalog() lookupd.Catalog { return catalog{n} }

// Drain implements node: clients get the answers that they are owed and are
// then disconnected, while the HTTP side still answers.
func (n *brokerNode) Drain(ctx context.Context) error {
	n.draining.Store(true)
	n.broker.Exit()
	return n.server.Shutdown(ctx)
}

// Close implements node.
func (n *brokerNode) Close() error {
	n.closing.Do(func() {
		n.closed.Store(true)
		n.stop()
		now, cancel := context.WithCancel(context.Background())
		cancel()
		if n.server != nil {
			_ = n.server.Shutdown(now) // what Drain left is cut
		}
		for _, s := range n.https {
			_ = s.Close()
		}
		n.c.Listeners.Close()
		var errs []error
		if n.broker != nil {
			errs = append(errs, n.broker.Close())
		}
		n.closeErr = errors.Join(append(errs, n.store.Close())...)
	})
	return n.closeErr
}

// sessions is the broker as NSQ sessions see it.
type sessions struct{ *broker.Broker }

// Subscribe implements server.Broker.
func (s sessions) Subscribe(ctx context.Context, r broker.Subscribe) (server.Subscription, error) {
	sub, err := s.Broker.Subscribe(ctx, r)
	if err != nil {
		return nil, err // a nil *Subscription must not become an interface
	}
	return sub, nil
}

// catalog is what a node serves, for lookup daemons.
type catalog struct{ n *brokerNode }

// Topics implements lookupd.Catalog. It reads the metadata, whose changes
// Changed tells of; what the node hosts follows a moment later. Only ephemeral
// channels are not in the metadata.
func (c catalog) Topics() map[string][]string {
	all := map[string][]string{}
	self := meta.NodeID(c.n.c.Options.NodeID)
	for _, t := range c.n.store.Topics() {
		if slices.ContainsFunc(t.Partitions, func(p meta.Partition) bool { return p.Leader == self }) {
			all[t.Name] = slices.Sorted(maps.Keys(t.Channels))
		}
	}
	for _, t := range c.n.broker.TopicStats("", "", false) {
		for i := range t.Channels {
			name := t.Channels[i].Name
			if _, known := all[t.Name]; known && t.Channels[i].Ephemeral {
				all[t.Name] = append(all[t.Name], name)
			}
		}
	}
	return all
}

// Changed implements lookupd.Catalog.
func (c catalog) Changed() <-chan struct{} { return c.n.store.Changed() }
