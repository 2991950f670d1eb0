package main

import (
	"context"
	"crypto/tls"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/internal/config"
	"github.com/brokerd/brokerd/internal/lookupd"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// node is a broker as the process sees it.
type node interface {
	// Serve answers on the listeners that the node was opened with. It returns
	// nil after Close, and otherwise why the node cannot go on.
	Serve() error
	// Ready is closed once the node serves as a member of its cluster.
	Ready() <-chan struct{}
	// Alive tells why the node should be killed and restarted, or nil. It does
	// not wait and does not depend on other nodes.
	Alive() error
	// Status is one line for an operator.
	Status() string
	// Reload applies the settings that can change while the node runs; others
	// are not looked at.
	Reload(config.Options)
	// Catalog is what the node serves, to be announced elsewhere.
	Catalog() lookupd.Catalog
	// Drain refuses new work, gives clients what they are owed and disconnects
	// them, until ctx is done.
	Drain(ctx context.Context) error
	// Close stops serving, closes the listeners and returns when all is on disk
	// and still. A second call does nothing.
	Close() error
}

// nodeConfig is what a node is opened with.
type nodeConfig struct {
	Options     config.Options
	Advertise   config.Advertise // every field that has a listener is filled in
	Listeners   *listeners       // bound; the node's to close
	TLS         *tls.Config      // for NSQ connections; nil: TLS is off
	PeerTLS     peerTLS          // for other nodes
	PeerSecrets func() [][]byte  // that other nodes must have; nil: none
	TLSEnds     func() time.Time // when the certificate in use ends; nil: TLS is off
	Disk        vfs.OS           // for topics
	Log         *slog.Logger
	Version     string // told to NSQ clients and tools
	Lookupds    *lookupds
	Level       *slog.LevelVar // the least severe level that is logged
}

// peerTLS returns what the next connection from or to another node uses; nil:
// nodes talk without TLS.
type peerTLS struct{ server, client func() *tls.Config }

// lookupds is the node's view of the lookup daemons that it is announced to.
// Its methods may be called by many goroutines at once.
type lookupds struct {
	first     []string // until the announcer runs
	announcer *atomic.Pointer[lookupd.Announcer]
}

// Addresses returns the daemons' addresses.
func (l *lookupds) Addresses() []string {
	if a := l.announcer.Load(); a != nil {
		return a.Addresses()
	}
	return l.first
}

// SetAddresses replaces the daemons. It has no effect before the node serves.
func (l *lookupds) SetAddresses(addresses []string) {
	if a := l.announcer.Load(); a != nil {
		a.SetAddresses(addresses)
	}
}

// Channels returns the channels that the daemons know of a topic that is new
// here. It waits for them; see lookupd.Announcer.
func (l *lookupds) Channels(ctx context.Context, topic string) ([]string, error) {
	if a := l.announcer.Load(); a != nil {
		return a.Channels(ctx, topic)
	}
	return nil, nil
}

// openNode recovers a node from its data directory. It starts to serve only
// with Serve. ctx ends the recovery.
type openNode func(ctx context.Context, c nodeConfig) (node, error)
