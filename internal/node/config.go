package node

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"os"
	"sync/atomic"

	"github.com/brokerd/brokerd/internal/build"
	"github.com/brokerd/brokerd/internal/config"
	"github.com/brokerd/brokerd/internal/lookupd"
	"github.com/brokerd/brokerd/pkg/cluster"
	"github.com/brokerd/brokerd/pkg/cluster/formation"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/metrics"
	"github.com/brokerd/brokerd/pkg/peer"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Config is what a node is opened with.
type Config struct {
	Options     config.Options
	Sources     map[string]string // the source of each setting, by key; a missing key has its default
	Advertise   config.Advertise  // every field that has a listener is filled in
	Listeners   *Listeners        // bound; the node's to close
	TLS         *tls.Config       // for NSQ connections; nil: TLS is off
	PeerTLS     PeerTLS           // for other nodes
	PeerSecrets func() [][]byte   // that other nodes must have; nil: none
	// NewPeerSecret creates a secret that other nodes must have from then on, and returns its file. nil:
	// the secret, or none, is configured.
	NewPeerSecret func() (file string, err error)
	// JoinToken returns the token with which the node joins a cluster; see cluster.Options. nil: none.
	JoinToken func() (string, error)
	// Certificates lists the certificates in use; nil: TLS is off.
	Certificates func() []metrics.Certificate
	Network      peer.Network // that other nodes are reached by; nil: TCP
	Disk         vfs.FS       // for topics
	MetaFS       vfs.FS       // for the marks of a member; nil: the operating system's
	// FirstAdminFile is the file, on the operating system's disk, with the secret that allows
	// creating the first administrator. "": there is no such secret.
	FirstAdminFile string
	Log            *slog.Logger
	Version        string // reported to NSQ clients and tools
	Lookupds       *Lookupds
	Level          *slog.LevelVar // the least severe level that is logged
}

// announcement is this node's description of itself for the other nodes.
func (c *Config) announcement() meta.Node {
	hostname, _ := os.Hostname() // "" if there is none
	return meta.Node{
		Hostname: hostname, TCPAddress: c.Advertise.TCP, HTTPAddress: c.Advertise.HTTP, HTTPSAddress: c.Advertise.HTTPS,
		ClusterAddress: c.Advertise.Cluster, Zone: c.Options.Zone, Version: build.Version(), BootID: bootID(),
		MaxPartitions: maxPartitions(&c.Options.Limits),
	}
}

// PeerTLS returns what the next connection from or to another node uses; nil:
// nodes talk without TLS.
type PeerTLS struct{ Server, Client func() *tls.Config }

// Lookupds is the node's view of the lookup daemons that it is announced to.
// Its methods are safe for concurrent use at once.
type Lookupds struct {
	First     []string // until the announcer runs
	Announcer atomic.Pointer[lookupd.Announcer]
}

// Addresses returns the daemons' addresses.
func (l *Lookupds) Addresses() []string {
	if a := l.Announcer.Load(); a != nil {
		return a.Addresses()
	}
	return l.First
}

// SetAddresses replaces the daemons. It has no effect before the node serves.
func (l *Lookupds) SetAddresses(addresses []string) {
	if a := l.Announcer.Load(); a != nil {
		a.SetAddresses(addresses)
	}
}

// Channels returns the channels that the daemons know of a topic that is new
// here. It waits for them; see lookupd.Announcer.
func (l *Lookupds) Channels(ctx context.Context, topic string) ([]string, error) {
	if a := l.Announcer.Load(); a != nil {
		return a.Channels(ctx, topic)
	}
	return nil, nil
}

// DiskError reports that the node cannot continue with its data directory.
type DiskError struct{ Err error }

// Error returns what happened.
func (e *DiskError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *DiskError) Unwrap() error { return e.Err }

// AddressError reports that an address to serve on is not valid.
type AddressError struct{ Err error }

// Error returns why the address is invalid.
func (e *AddressError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *AddressError) Unwrap() error { return e.Err }

// NoPlace reports whether err means that the cluster has no place for this node until an operator
// changes something.
func NoPlace(err error) bool {
	for _, why := range []error{
		failure.Removed, formation.ErrNodeIDTaken, formation.ErrTwoClusters, formation.ErrOtherCluster, formation.ErrAddressTaken,
		formation.ErrJoinToken, formation.ErrDiskOutdated,
		failure.FeatureLevel, cluster.ErrSuperseded, cluster.ErrRecoveryUnfinished,
	} {
		if errors.Is(err, why) {
			return true
		}
	}
	return false
}
