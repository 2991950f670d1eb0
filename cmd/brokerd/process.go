package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/brokerd/brokerd/internal/config"
	"github.com/brokerd/brokerd/internal/lookupd"
	"github.com/brokerd/brokerd/internal/node"
	"github.com/brokerd/brokerd/pkg/admin/nsqform"
	"github.com/brokerd/brokerd/pkg/metrics"
	"github.com/brokerd/brokerd/pkg/peer"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// process runs one node from start to stop.
type process struct {
	loaded   config.Loaded
	again    func() (config.Loaded, error) // reloads the configuration
	hostname string
	log      *slog.Logger
	level    *slog.LevelVar
	signals  <-chan os.Signal
	open     openNode
	greet    func(protocol, address string) // reports a listener being served

	certs     *certificates  // for clients; nil: off
	peerCerts *certificates  // for other nodes; nil: off
	secret    *clusterSecret // of the nodes
	disk      vfs.OS         // for topics
	lookupds  *node.Lookupds
}

// errStopped is the cause of a context that a signal ended.
var errStopped = errors.New("stopped by a signal")

// run serves until a signal or a failure, and returns nil after a clean stop. A second signal ends
// draining early.
func (p *process) run(ctx context.Context) error {
	o := &p.loaded.Options
	stopping, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	hurry, now := context.WithCancel(ctx)
	defer now()
	hangup := make(chan struct{}, 1)
	signal.Ignore(syscall.SIGPIPE) // a node survives the reader of its log
	go watchSignals(hurry, p.signals, hangup, func() { stop(errStopped) }, now)

	lock, err := lockDataDir(o.DataDir, o.NodeID, time.Now())
	if err != nil {
		return err
	}
	defer lock.Close()
	if lock.fresh {
		p.log.Info("data directory is new: if there should be data in it, stop the node and check that its disk is mounted", "dir", o.DataDir)
	}
	if p.certs, err = loadCertificates(o.TLS); err != nil {
		return err
	}
	if p.peerCerts, err = loadClusterCertificates(o.Cluster.TLS, peer.Node(o.NodeID)); err != nil {
		return err
	}
	if p.secret, err = loadClusterSecret(o); err != nil {
		return err
	}
	ls, err := node.Bind(stopping, o.Listen)
	if err != nil {
		return err
	}
	defer ls.Close()
	if err := p.secret.guardCluster(&o.Cluster, ls.Cluster); err != nil {
		return err
	}
	p.disk = topicFiles(openFiles(), p.log)
	connLimits := newConnLimits(openFiles(), &o.Limits, p.disk.Files, p.log)
	ls.WrapClients(connLimits.nsq, connLimits.http)
	p.warnExposed(ls)
	var watches sync.WaitGroup
	defer watches.Wait()
	watching, enough := context.WithCancel(stopping)
	defer enough()
	for _, certs := range p.allCertificates() {
		certs.warn(p.log, time.Now())
		watches.Go(func() { certs.watch(watching, p.log) })
	}
	n, err := p.recoverNode(stopping, ls, hangup)
	if err != nil {
		if errors.Is(context.Cause(stopping), errStopped) {
			return nil
		}
		return err
	}
	served := make(chan error, 1)
	go func() { served <- n.Serve() }()
	p.greetAll(ls)
	failure := p.attend(stopping, n, ls, lock, hangup, served)
	return errors.Join(failure, p.goDown(hurry, n, failure == nil))
}

// watchSignals converts signals to calls until ctx is done: the first SIGTERM or SIGINT stops, the
// second ends draining early.
func watchSignals(ctx context.Context, signals <-chan os.Signal, hangup chan<- struct{}, stop, now func()) {
	stopped := false
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-signals:
			switch {
			case s == syscall.SIGHUP:
				poke(hangup)
			case stopped:
				now()
			default:
				stopped = true
				stop()
			}
		}
	}
}

// poke has the settings reloaded, unless that is to be done already.
func poke(hangup chan<- struct{}) {
	select {
	case hangup <- struct{}{}:
	default:
	}
}

// recoverNode opens the node while it requests more time from systemd.
func (p *process) recoverNode(ctx context.Context, ls *node.Listeners, hangup chan struct{}) (brokerNode, error) {
	asking, enough := context.WithCancel(ctx)
	var asked sync.WaitGroup
	asked.Go(func() { keepAsking(asking, "recovering "+p.loaded.Options.DataDir) })
	asked.Go(func() { p.reloadCredentials(asking, hangup) })
	defer asked.Wait()
	defer enough()
	began := time.Now()
	p.lookupds = &node.Lookupds{First: p.loaded.Options.LookupdTCPAddresses}
	c := node.Config{
		Options: p.loaded.Options, Sources: p.loaded.Sources, Advertise: node.Advertised(p.loaded.Options.Advertise, ls, p.hostname),
		Listeners: ls, TLS: p.certs.config(), Disk: p.disk, Log: p.log, Level: p.level,
		Version: nsqVersion, Lookupds: p.lookupds, FirstAdminFile: filepath.Join(p.loaded.Options.DataDir, node.FirstAdminFile),
		JoinToken: joinToken(p.loaded.Options.Cluster.JoinTokenFile),
	}
	c.Certificates = func() []metrics.Certificate {
		return append(p.certs.figures("server"), p.peerCerts.figures("cluster")...)
	}
	if p.peerCerts != nil {
		c.PeerTLS = node.PeerTLS{Server: p.peerCerts.server, Client: p.peerCerts.client}
	}
	c.PeerSecrets = p.secret.secrets
	if p.secret.own {
		c.NewPeerSecret = p.secret.create
	}
	for i, l := range ls.HTTPS {
		ls.HTTPS[i] = tls.NewListener(l, c.TLS)
	}
	n, err := p.open(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("open node: %w", err)
	}
	p.log.Info("recovered", "dir", p.loaded.Options.DataDir, "node", p.loaded.Options.NodeID, "took", time.Since(began).Round(time.Millisecond))
	return n, nil
}

func (p *process) greetAll(ls *node.Listeners) {
	for _, role := range []struct {
		protocol string
		bound    []net.Listener
	}{{"TCP", ls.TCP}, {"HTTP", ls.HTTP}, {"HTTPS", ls.HTTPS}, {"LOOKUP", ls.Lookup}, {"CLUSTER", ls.Cluster}} {
		for _, l := range role.bound {
			p.greet(role.protocol, l.Addr().String())
		}
	}
}

// attend monitors a serving node until it must stop (nil) or fails.
func (p *process) attend(ctx context.Context, n brokerNode, ls *node.Listeners, lock *dirLock, hangup <-chan struct{}, served <-chan error) error {
	ctx, leave := context.WithCancel(ctx)
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer leave()
	if p.loaded.Options.Process.Watchdog {
		helpers.Go(func() {
			pingWatchdog(ctx, n.Alive, n.Status, func(err error) { p.log.Error("liveness check failed; watchdog not notified", "error", err) })
		})
	}
	gone := make(chan error, 1)
	helpers.Go(func() { lock.watch(ctx, gone) })
	announcer := p.newAnnouncer(n, ls)
	p.lookupds.Announcer.Store(announcer)
	helpers.Go(func() { announcer.Run(ctx) })
	waiting, ready := context.WithCancel(ctx)
	defer ready()
	helpers.Go(func() { keepAsking(waiting, "waiting to join or form a cluster") })
	becomesReady := n.Ready()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-served:
			if err == nil {
				err = errors.New("the node stopped without an error; its log has the reason")
			}
			return fmt.Errorf("serve: %w", err)
		case err := <-gone:
			p.log.Error("fatal error: the process exits", "error", err)
			return err
		case <-becomesReady:
			becomesReady = nil
			ready()
			p.log.Info("ready", "node", p.loaded.Options.NodeID)
			notify(daemon.SdNotifyReady, status(n.Status()))
		case <-hangup:
			p.reload(n)
		}
	}
}

func (p *process) allCertificates() []*certificates {
	return slices.DeleteFunc([]*certificates{p.certs, p.peerCerts}, func(c *certificates) bool { return c == nil })
}

func (p *process) newAnnouncer(n brokerNode, ls *node.Listeners) *lookupd.Announcer {
	o := &p.loaded.Options
	told := node.Advertised(o.Advertise, ls, p.hostname)
	return lookupd.NewAnnouncer(lookupd.AnnouncerOptions{
		Node: nsqform.Producer{
			Hostname: p.hostname, BroadcastAddress: node.HostOf(told.TCP, told.Host), TCPPort: node.PortOf(told.TCP), HTTPPort: node.PortOf(told.HTTP),
			Version: nsqVersion, TopologyZone: o.Zone, TopologyRegion: o.Region,
		},
		Addresses: o.LookupdTCPAddresses, Catalog: n.Catalog(), Log: p.log, Timeout: o.Auth.ConnectTimeout,
	})
}

// reloadCredentials reads certificates and secrets at each SIGHUP until ctx is done: a node may wait for its cluster
// because the others refuse those that it has. The other settings are reloaded once the node is open.
func (p *process) reloadCredentials(ctx context.Context, hangup chan struct{}) {
	later := false
	for {
		select {
		case <-hangup:
			later = true
			p.refreshCredentials()
			continue
		case <-ctx.Done():
		}
		if later {
			poke(hangup)
		}
		return
	}
}

func (p *process) refreshCredentials() {
	for _, certs := range p.allCertificates() {
		certs.refreshAndLog(p.log, "")
	}
	if err := p.secret.refresh(); err != nil {
		p.log.Error("cannot reload cluster secret; the old one stays in use", "error", err)
	}
}

// reload applies the settings that can change at run time. An invalid configuration changes
// nothing.
func (p *process) reload(n brokerNode) {
	notify(reloading())
	defer notify(daemon.SdNotifyReady)
	p.refreshCredentials()
	next, err := p.again()
	if err != nil {
		p.log.Error("cannot reload configuration; the old one stays in use", "error", err)
		return
	}
	applied, restart := config.Changed(&p.loaded.Options, &next.Options)
	if len(restart) > 0 {
		p.log.Warn("changed settings require a restart", "settings", strings.Join(restart, " "))
	}
	setLevel(p.level, next.Options.Process.LogLevel)
	p.loaded.Options.CopyReloadable(&next.Options)
	p.lookupds.SetAddresses(p.loaded.Options.LookupdTCPAddresses)
	n.Reload(p.loaded.Options)
	p.log.Info("configuration reloaded", "changed", strings.Join(applied, " "))
}

// goDown stops a node; if it is healthy, it drains first. hurry ends draining early.
func (p *process) goDown(hurry context.Context, n brokerNode, clean bool) error {
	notify(daemon.SdNotifyStopping, status("draining"))
	if clean {
		timeout := p.loaded.Options.Process.DrainTimeout
		p.log.Info("draining", "timeout", timeout)
		drain, cancel := context.WithTimeout(hurry, timeout)
		if err := n.Drain(drain); err != nil {
			p.log.Warn("drain incomplete: no acknowledged message is lost; partitions that were not transferred get a leader from the nodes that remain, or at the next start if all stop at once", "error", err)
		}
		cancel()
	}
	if err := n.Close(); err != nil {
		return fmt.Errorf("close node: %w", err)
	}
	p.log.Info("stopped")
	return nil
}

// warnExposed logs once which interfaces are reachable from other machines without authentication.
func (p *process) warnExposed(ls *node.Listeners) {
	o := &p.loaded.Options
	if open := ls.Exposed(); len(open) > 0 && (o.TLS.Required == "false" || len(o.Auth.HTTPAddresses) == 0) {
		p.log.Warn("client ports are reachable from other machines without TLS and AUTH; this is only safe in a trusted network",
			"addresses", strings.Join(open, " "))
	}
	if p.secret.open(&o.Cluster, ls.Cluster) {
		p.log.Info("cluster port is open: any process that reaches it can join as a node, and a node may do everything; to close it, set cluster-secret-file of all nodes to the same file",
			"address", ls.Cluster[0].Addr().String())
	}
	if ca := o.Cluster.TLS.CAFile; ca != "" && sharesAuthority(ca, o.TLS.RootCAFile) {
		p.log.Warn("cluster-tls-ca and tls-root-ca-file have a certificate authority in common: certificates that it issues to clients may be those of nodes; use an authority of its own for the cluster",
			"cluster_tls_ca", ca, "tls_root_ca_file", o.TLS.RootCAFile)
	}
	if openToOthers(p.secret.path) {
		p.log.Warn("cluster secret file is world-readable; run chmod o-r on it", "file", p.secret.path)
	}
	if path := o.Cluster.JoinTokenFile; path != "" && openToOthers(path) {
		p.log.Warn("join token file is world-readable; run chmod o-r on it, or delete it if the node has joined", "file", path)
	}
}

// brokerNode is a node as used by the process; see node.Node.
type brokerNode interface {
	Serve() error
	Ready() <-chan struct{}
	Alive() error
	Status() string
	Reload(config.Options)
	Catalog() lookupd.Catalog
	Drain(ctx context.Context) error
	Close() error
}

// openNode recovers a node from its data directory. The node serves only after Serve. ctx ends the
// recovery.
type openNode func(ctx context.Context, c node.Config) (brokerNode, error)

// openBroker opens the node of the process.
func openBroker(ctx context.Context, c node.Config) (brokerNode, error) {
	node.LimitHeap()
	n, err := node.Open(ctx, c)
	if err != nil {
		return nil, err // a nil *Node must not become an interface
	}
	return n, nil
}

// makePlaces allows Go code to run while a goroutine syncs. A syncing goroutine occupies a P until
// the monitor of the Go runtime checks, up to 10 ms later (docs/adr/0021-the-runtime-monitor-stays-awake.md).
// With a single P, nothing else would run meanwhile.
func makePlaces() {
	if runtime.GOMAXPROCS(0) == 1 && os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(2)
	}
}
