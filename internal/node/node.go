package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/brokerd/brokerd/internal/build"
	"github.com/brokerd/brokerd/internal/config"
	"github.com/brokerd/brokerd/internal/lookupd"
	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/admin"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/admin/lookup"
	"github.com/brokerd/brokerd/pkg/admin/nsqd"
	"github.com/brokerd/brokerd/pkg/admin/nsqform"
	v1 "github.com/brokerd/brokerd/pkg/admin/v1"
	"github.com/brokerd/brokerd/pkg/admin/web"
	"github.com/brokerd/brokerd/pkg/broker"
	"github.com/brokerd/brokerd/pkg/cluster"
	"github.com/brokerd/brokerd/pkg/cluster/controller"
	"github.com/brokerd/brokerd/pkg/cluster/formation"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/consume"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/guard"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/metrics"
	"github.com/brokerd/brokerd/pkg/nsq"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/server"
	"github.com/brokerd/brokerd/pkg/server/auth"
	"github.com/brokerd/brokerd/pkg/topic"
	"github.com/brokerd/brokerd/pkg/vfs/hook"
)

// turnsPart is the part of the processors that may be busy with much for few.
const turnsPart = 2

// Node is one node: the broker, the parts below it, and the servers in front of
// it. Open makes it, Serve answers, Drain and Close end it.
type Node struct {
	c       Config
	disk    *hook.Watch
	slow    *slowDisk
	member  *cluster.Node
	broker  *broker.Broker
	server  *server.Server
	admin   *admin.Server
	metrics *metrics.Metrics
	process *process
	memory  *limit.Memory        // of all that clients make the node hold
	turns   *limit.Turns         // of what clients make the processors do
	drops   *limit.Drops         // of what clients send for nothing
	created *limit.Creations     // by clients
	tracing *tracing             // what happened to messages
	guard   *guard.Guard         // of access control
	refused atomic.Uint64        // HTTP requests that it did not let in
	first   *firstAdmin          // the secret that allows creating the first administrator
	awaited func() []meta.NodeID // see cluster.Lookout

	front, lookupFront admin.Front    // answer from the beginning
	https              []*http.Server // one for each HTTP listener
	web                sync.WaitGroup // they serve
	webFailed          chan error     // why one of them cannot; holds one

	ready  chan struct{}
	failed chan error // why the node cannot continue; holds one

	serving   context.Context
	stop      context.CancelFunc
	closing   sync.Once
	closed    atomic.Bool
	draining  atomic.Bool
	aborted   atomic.Bool
	stalled   atomic.Bool // the disk hangs: what writes to it may never return
	closeErr  error
	startedAt time.Time
}

// Open recovers a node from its data directory: its place in the cluster and the metadata, then the
// partitions that the metadata assigns to it, then their servers. It serves NSQ clients only with
// Serve; until then HTTP clients get the answer that it is not ready. ctx ends the recovery.
func Open(ctx context.Context, c Config) (*Node, error) {
	n := &Node{c: c, disk: hook.NewWatch(c.Disk), ready: make(chan struct{}), failed: make(chan error, 1), webFailed: make(chan error, 1), startedAt: time.Now()}
	n.slow = &slowDisk{disk: n.disk, timeout: c.Options.Cluster.DiskTimeout, log: c.Log}
	n.process = newProcess(&n.c)
	n.serving, n.stop = context.WithCancel(context.WithoutCancel(ctx))
	n.memory = limit.NewMemory(budgetBytes(&c.Options.Limits))
	n.turns = limit.NewTurns(max(1, runtime.GOMAXPROCS(0)/turnsPart))
	n.drops = limit.NewDrops(limit.DropRate)
	n.created = limit.NewCreations(c.Options.Limits.CreationBurst, time.Second/time.Duration(c.Options.Limits.CreationRate), c.Log)
	var err error
	if n.tracing, err = newTracing(n); err != nil {
		n.stop()
		n.c.Listeners.Close()
		return nil, err
	}
	n.metrics = n.newMetrics()
	n.startWeb()
	if n.member, err = cluster.Open(ctx, n.memberOptions()); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	store := n.member.Store()
	directory := func() *access.Directory { return raftstore.AccessOf(store) }
	n.first = newFirstAdmin(&n.c, directory)
	n.guard = guard.New(guard.Options{Directory: directory, Changed: store.Changed, First: n.first.is})
	if err := n.openServers(ctx); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	n.first.settle()
	if cluster.PortOpen(n.member) && directory().On() {
		c.Log.Warn("access control is on, but the cluster port is open: any process that reaches it can take a member's name; no node is admitted without a join token; set cluster-secret-file of all nodes to the same file",
			"address", n.c.Advertise.Cluster)
	}
	n.front.Open(n.admin.Handler())
	n.lookupFront.Open(n.admin.LookupHandler())
	return n, nil
}

func (n *Node) memberOptions() cluster.Options {
	o := &n.c.Options
	return cluster.Options{
		Self: meta.NodeID(o.NodeID), FS: n.c.MetaFS, DataDir: o.DataDir, Node: n.c.announcement(),
		Network: n.c.Network, Address: n.c.Advertise.Cluster, Listeners: n.c.Listeners.Cluster,
		Join: o.Cluster.Join, Expect: o.Cluster.BootstrapExpect,
		Build: build.Version(), ServerTLS: n.c.PeerTLS.Server, ClientTLS: n.c.PeerTLS.Client, Secrets: n.c.PeerSecrets, JoinToken: n.c.JoinToken, FrameMemory: frameBytes(), Logger: n.c.Log,
		Proposed:    n.metrics.Histograms().ObserveChange,
		Controller:  controller.Options{SessionTimeout: o.Cluster.NodeTimeout},
		DiskTimeout: o.Cluster.DiskTimeout, DiskSilent: n.slow.isSilent,
		Store: func(s *raftstore.Options) {
			s.HeartbeatTimeout, s.ElectionTimeout, s.LeaderLease = o.Cluster.HeartbeatTimeout(), o.Cluster.ElectionTimeout, o.Cluster.LeaderLease()
			s.CommitTimeout, s.ApplyTimeout = o.Cluster.Raft.Commit, o.Cluster.Raft.Apply
		},
		Opening: func(l cluster.Lookout) {
			n.awaited = l.Awaited
			n.front.Wait(operate.NewOutlook(meta.NodeID(o.NodeID), l))
		},
	}
}

func (n *Node) openServers(ctx context.Context) (err error) {
	if n.broker, err = broker.Open(ctx, n.brokerOptions()); err != nil {
		return err
	}
	n.member.Serve(cluster.Handlers{
		Replicate: n.broker.Host.Topics.HandleReplication, Forward: n.broker.Calls.HandleForward, ForwardDown: n.broker.Calls.ForwardDown,
	})
	if n.server, err = server.New(n.serverOptions(), server.Broker{Publisher: n.broker.Router, Subscriber: subscriber{n.broker.Consumers}, TopicReader: n.broker.Directory}, n.c.Log); err != nil {
		return err
	}
	if n.admin, err = admin.New(n.adminOptions()); err != nil {
		return err
	}
	return nil
}

// startWeb has the HTTP listeners answer: until the node is open, that it is not.
func (n *Node) startWeb() {
	ls := n.c.Listeners
	for _, l := range slices.Concat(ls.HTTP, ls.HTTPS) {
		n.serveWeb(l, &n.front)
	}
	for _, l := range ls.Lookup {
		n.serveWeb(l, &n.lookupFront)
	}
}

func (n *Node) serveWeb(l net.Listener, h http.Handler) {
	s := web.NewHTTPServer(n.ownNames().Guard(h, admin.Refuse), n.c.Log)
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return n.created.By(publish.WithClient(ctx, c.RemoteAddr().String()), c.RemoteAddr())
	}
	n.https = append(n.https, s)
	n.web.Go(func() {
		if err := ignoreClosed(s.Serve(l)); err != nil {
			select {
			case n.webFailed <- err:
			default: // one is enough
			}
		}
	})
}

func (n *Node) brokerOptions() broker.Options {
	o := &n.c.Options
	return broker.Options{
		Options: host.Options{
			Self: meta.NodeID(o.NodeID), FS: n.disk, DataDir: o.DataDir, Meta: n.member.Store(), Logger: n.c.Log,
			Node: n.c.announcement(), Registered: true, Peers: n.member.Peers(), Calls: forward.Caller{Remote: n.member},
			Log:           commitlog.Options{SegmentBytes: int64(o.Topics.SegmentSize), OnSync: n.metrics.Histograms().ObserveFsync, OnAppend: n.metrics.Histograms().ObserveAppend},
			Observer:      n.metrics.Histograms(),
			LatencyWindow: o.Latency.Kept(),
			Trace:         n.tracing.store,
			DiskReserve:   uint64(o.Topics.DiskReserve), UncommittedBytes: uncommittedBytes(&o.Limits),
			CatchUpRate: int64(o.Topics.CatchUpRate),
			Memory:      n.memory,
			Moves: topic.MovePolicy{
				RequeueInMemory: o.Limits.RequeueInMemory, CarryAge: o.Topics.CarryAge, CarryBytes: int64(o.Topics.CarryBytes),
			},
			ScrubInterval: scrubInterval(o.Topics.ScrubInterval),
			WallClock:     n.member.Clock().Read,
			Fatal: func(err error) {
				select {
				case n.failed <- err:
				default:
				}
			},
		},
		Members: n.member, Skew: n.member.Clock().Skew, OtherClusters: func() []string { return cluster.OtherClusters(n.member) }, Process: n.process, Certificates: func() []health.Certificate { return endsOf(n.c.Certificates) }, Awaited: n.awaited,
		Unreached: func() []formation.Unreached { return cluster.UnreachedBy(n.member) }, AutoCreateTopics: o.Topics.AutoCreate,
		TopicDefaults: meta.TopicConfig{
			Partitions: o.Topics.Partitions, Sync: syncPolicy(&o.Topics),
			RetentionAge: o.Topics.Retention, RetentionBytes: int64(o.Topics.RetentionBytes),
		},
		KnownChannels:       n.c.Lookupds.Channels,
		MaxChannelConsumers: o.Limits.MaxChannelConsumers, MaxMsgTimeout: o.Limits.MaxMsgTimeout, MaxMessage: int(o.Limits.MaxMsgSize),
	}
}

// scrubInterval returns the broker's value for a setting: 0 is never.
func scrubInterval(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// bootID identifies this boot of the kernel: data that was not synced before it is lost.
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

func (n *Node) serverOptions() server.Options {
	l, t := &n.c.Options.Limits, &n.c.Options.TLS
	o := server.Options{
		Limits: nsq.Limits{
			Version: n.c.Version, MaxReady: l.MaxRdyCount, MsgTimeout: l.MsgTimeout, MaxMsgTimeout: l.MaxMsgTimeout,
			MaxHeartbeat: l.MaxHeartbeatInterval, MaxOutputBufferSize: int(l.MaxOutputBufferSize), OutputBufferTimeout: l.OutputBufferTimeout,
			MinOutputBufferTimeout: l.MinOutputBufferTimeout, MaxOutputBufferTimeout: l.MaxOutputBufferTimeout,
			MaxDeflateLevel: l.MaxDeflateLevel, TopologyRegion: n.c.Options.Region, TopologyZone: n.c.Options.Zone,
		},
		Cluster: n.broker.Operator.Cluster().ClusterID, AllowExtCompatible: l.AllowExtCompatible,
		MaxMessageBytes: int(l.MaxMsgSize), MaxBodyBytes: int(l.MaxBodySize), MaxDelay: l.MaxReqTimeout,
		NoDeflate: !l.Deflate, NoSnappy: !l.Snappy, MaxConnections: l.MaxConnections, TLSRequired: t.Required != "false",
		Guard: n.guard, Memory: n.memory, Turns: n.turns, Drops: n.drops, Creations: n.created,
	}
	o.CreateTopic = func(ctx context.Context, name string, partitions int, ext bool) error {
		return createTopic(ctx, n.broker, name, partitions, ext)
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

func (n *Node) adminOptions() admin.Options {
	o, a, b := &n.c.Options, n.c.Advertise, n.broker
	hostname, _ := os.Hostname()
	configFrom, _ := config.ParseNetworks(o.Web.ConfigFrom) // checked when it was loaded
	return admin.Options{
		Publisher: web.Publisher{Sender: b.Router, TopicEnsurer: b.Directory},
		NSQD:      nsqd.Broker{TopicWriter: b.Directory, Contents: b.Contents, Node: b.Node, Deletions: b.Host.Topics, ClusterReader: b.Operator},
		Lookup:    lookup.Broker{Directory: b.Directory, ChannelDeleter: b.Contents, Node: b.Node, Deletions: b.Host.Topics, ClusterReader: b.Operator},
		V1: v1.Options{
			Broker: v1.Broker{
				TopicReader: b.Directory, TopicWriter: b.Directory, ReplicaFitter: b.Operator, ContentWriter: b.Contents, Observer: b.Contents,
				Positions: b.Contents, Audit: b.Recorder, MessageOperator: b.Contents, ClusterReader: b.Operator,
			},
			Operator: v1.Operator{NodeOperator: b.Operator, PartitionOperator: b.Operator, Repairer: b.Contents, Agreement: b.Operator},
			Policies: b.Contents.Policies(), Plans: operate.Planner{Node: b.Node}, Deferrals: operate.Deferrals{Node: b.Node}, Traces: operate.Traces{Node: b.Node},
			Trash: b.Directory.Trash(), Upgrades: &operate.Upgrader{Node: b.Node}, Settings: b.Node, Diagnose: func() api.Diagnosis { return diagnose(&n.c, n.startedAt) },
			Access: v1.Access{Accesses: &operate.Access{
				Node: b.Node, Certificates: verifiesClients(o), Open: func() bool { return cluster.PortOpen(n.member) }, NewSecret: n.c.NewPeerSecret,
			}},
			Snapshot: func() (api.MetadataSnapshot, error) { return snapshot(o.NodeID, b.Node.Meta.View()) },
		},
		Guard: n.guard, ObserveRefusal: func() { n.refused.Add(1) },
		AnonymousLookup: o.Access.AnonymousLookup, AnonymousMetrics: o.Access.AnonymousMetrics,
		Identity: nsqform.Identity{
			Version: n.c.Version, Hostname: hostname, BroadcastAddress: HostOf(a.TCP, a.Host),
			TCPPort: PortOf(a.TCP), HTTPPort: PortOf(a.HTTP), HTTPSPort: PortOf(a.HTTPS), Zone: o.Zone, Region: o.Region,
			Started: n.startedAt, MaxHeartbeatInterval: o.Limits.MaxHeartbeatInterval,
			MaxOutputBufferSize: int64(o.Limits.MaxOutputBufferSize), MaxOutputBufferTimeout: o.Limits.MaxOutputBufferTimeout,
			MaxDeflateLevel: o.Limits.MaxDeflateLevel,
		},
		Limits:  web.Limits{MaxMessage: int(o.Limits.MaxMsgSize), MaxBody: int(o.Limits.MaxBodySize), MaxDefer: o.Limits.MaxReqTimeout},
		Memory:  n.memory,
		Turns:   n.turns,
		Drops:   n.drops,
		Clients: n.server.Clients, TLSRequired: o.TLS.Required == "true", PlainMetrics: o.TLS.PlainMetrics, Figures: figures(&n.c.Options), Debug: o.Process.Pprof, Logger: n.c.Log,
		Live: n.live, Metrics: n.metrics.Handler(), DetailedMetrics: n.metrics.Detailed(),
		Observe:    func(e web.Exchange) { n.metrics.Histograms().ObserveHTTP(e.Route, e.Status, e.Duration) },
		ObserveAct: n.metrics.Histograms().ObserveAct,
		ConfigFrom: configFrom,
		Config:     &runtimeConfig{options: *o, lookupds: n.c.Lookupds, level: n.process.level},
	}
}

func (n *Node) live() []health.Reason {
	if err := n.Alive(); err != nil {
		return []health.Reason{{Code: "failed", Count: 1, What: err.Error()}}
	}
	return nil
}

// countPartitions charges the node's partitions to the memory budget, until ctx ends.
func (n *Node) countPartitions(ctx context.Context) {
	store := n.member.Store()
	for {
		changed := store.Changed()
		store.Read(func(s *meta.State) { n.memory.Occupy(s.Load()[meta.NodeID(n.c.Options.NodeID)].Replicas) })
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// Serve answers on the listeners that the node was opened with. It returns nil after
// Close, and otherwise why the node cannot continue: a DiskError where its data cannot be
// used.
func (n *Node) Serve() error {
	g, ctx := errgroup.WithContext(n.serving)
	ls := n.c.Listeners
	for _, l := range ls.TCP {
		g.Go(func() error { return ignoreClosed(n.server.Serve(ctx, l)) })
	}
	g.Go(func() error { n.server.EnforceAccess(ctx); return nil })
	g.Go(func() error { n.countPartitions(ctx); return nil })
	if path := n.c.Options.Access.AuditFile; path != "" {
		g.Go(func() error { (&auditFile{path: path, log: n.c.Log}).run(ctx, n.member.Store()); return nil })
	}
	g.Go(func() error { n.first.run(ctx, n.member.Store().Changed); return nil })
	if s := n.statsd(); s != nil {
		g.Go(func() error { s.Run(ctx); return nil })
	}
	g.Go(func() error {
		if err := n.slow.watch(ctx); err != nil {
			n.stalled.Store(true)
			return &DiskError{err}
		}
		return nil
	})
	g.Go(func() error {
		select {
		case err := <-n.failed:
			return &DiskError{err}
		case err := <-n.webFailed:
			return err
		case <-n.member.Failed():
			n.stalled.Store(errors.Is(n.member.Err(), cluster.ErrStalled))
			err := n.member.Err()
			if NoPlace(err) {
				return err
			}
			return &DiskError{err}
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

// Ready is closed once the node serves as a member of its cluster.
func (n *Node) Ready() <-chan struct{} { return n.ready }

// Alive returns why the node should be killed and restarted, or nil. It does not wait and does not
// depend on other nodes.
func (n *Node) Alive() error { return n.member.Err() }

// Status is one line for an operator.
func (n *Node) Status() string {
	return fmt.Sprintf("%d topics, %d client connections", len(n.broker.Directory.Topics()), len(n.server.Clients()))
}

// Reload applies the settings that can change while the node runs; others are not
// looked at.
func (n *Node) Reload(o config.Options) { n.process.reload(o) }

// Broker is the door to what the node holds.
func (n *Node) Broker() *broker.Broker { return n.broker }

// Catalog is what the node serves, to be announced elsewhere.
func (n *Node) Catalog() lookupd.Catalog { return catalog{n} }

// Drain refuses new work until ctx is done: leaderships go to others, clients get the answers that
// they are owed and are then disconnected, while the HTTP side still answers.
// Until its clients are gone the node forwards what they publish.
func (n *Node) Drain(ctx context.Context) error {
	n.draining.Store(true)
	handover := n.broker.Host.Handover(ctx)
	err := errors.Join(handover, n.server.Shutdown(ctx))
	n.broker.Host.Exit()
	return err
}

// Close stops serving, closes the listeners and returns when all is on disk and still. A
// second call does nothing.
func (n *Node) Close() error {
	n.closing.Do(func() {
		n.closed.Store(true)
		n.stop()
		n.process.level.close()
		if n.stalled.Load() {
			n.closeErr = n.abandon()
			return
		}
		n.hangUp()
		n.web.Wait()
		n.closeErr = n.closeData()
	})
	return n.closeErr
}

// Abort closes an open node as if its process had been killed: it transfers nothing, and the next
// start does not count this stop as clean. Config.Disk and Config.MetaFS decide what is still
// written to the disk.
func (n *Node) Abort() error {
	n.aborted.Store(true)
	return n.Close()
}

// hangUp cuts the clients that Drain left, and closes all listeners.
func (n *Node) hangUp() {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	for _, s := range n.https {
		_ = s.Close()
	}
	n.c.Listeners.Close()
	if n.server != nil {
		_ = n.server.Shutdown(now)
	}
}

// abandon closes connections if the disk hangs and files cannot be closed: others must see that
// this node is down.
func (n *Node) abandon() error {
	return errors.Join(
		closeWithin(stalledClose, n.member.Close),
		closeWithin(stalledClose, func() error { n.hangUp(); return nil }),
	)
}

// closeData closes the data on disk.
func (n *Node) closeData() error {
	defer n.tracing.close()
	if n.member == nil {
		return nil
	}
	if n.aborted.Load() {
		return errors.Join(n.broker.Close(), n.member.Close())
	}
	if n.broker != nil {
		if err := n.broker.Close(); err != nil {
			_ = n.member.Close() // the next start finds that this stop was not clean
			return err
		}
	}
	return n.member.StopClean()
}

// subscriber has NSQ sessions join channels.
type subscriber struct{ consumers *consume.Consumers }

// Subscribe implements server.Subscriber.
func (s subscriber) Subscribe(ctx context.Context, r consume.Subscribe) (server.Subscription, error) {
	sub, err := s.consumers.Subscribe(ctx, r)
	if err != nil {
		return nil, err // a nil *Subscription must not become an interface
	}
	return sub, nil
}

// catalog is what a node serves, for lookup daemons.
type catalog struct{ n *Node }

// Topics implements lookupd.Catalog. It reads the metadata, whose changes Changed reports; the
// replicas that the node hosts follow a moment later. Only ephemeral channels are not in the
// metadata.
func (c catalog) Topics() map[string][]string {
	all := map[string][]string{}
	self := meta.NodeID(c.n.c.Options.NodeID)
	for _, t := range c.n.member.Store().Topics() {
		if slices.ContainsFunc(t.Partitions, func(p meta.Partition) bool { return p.Leader == self }) {
			all[t.Name] = slices.Sorted(maps.Keys(t.Channels))
		}
	}
	for _, t := range c.n.broker.Node.TopicStats("", "", false) {
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
func (c catalog) Changed() <-chan struct{} { return c.n.member.Store().Changed() }
