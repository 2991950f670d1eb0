package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/cluster/formation"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/peer"
)

// supersededTimeout is how long a starting node waits to learn that its cluster was recovered
// without it. It also ends if it learns of it later.
const supersededTimeout = 300 * time.Millisecond

// supersededCheck compares the cluster of a node's data with the clusters of other nodes.
type supersededCheck struct {
	own       string   // id of this node's cluster; "": none, or unknown
	addresses []string // of other nodes
	transport *peer.Transport
	work      *tasks
	breakdown *breakdown
}

// run asks the other nodes for their clusters. It returns ErrSuperseded if one of them is in a
// cluster that was recovered from this node's: then the old cluster must not continue, even if a
// majority of it is present. Nodes that do not respond are ignored.
func (l *supersededCheck) run(ctx context.Context) error {
	if l.own == "" {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	found := make(chan error, len(l.addresses))
	for _, address := range l.addresses {
		if !l.work.start(func() { found <- l.compare(ctx, address) }) {
			found <- nil
		}
	}
	timer := time.NewTimer(supersededTimeout)
	defer timer.Stop()
	for asked := len(l.addresses); asked > 0; asked-- {
		select {
		case err := <-found:
			if err != nil {
				cancel()
				return err
			}
		case <-timer.C:
			if !l.work.start(func() { defer cancel(); l.await(found, asked) }) {
				cancel()
			}
			return nil
		}
	}
	cancel()
	return nil
}

// await handles late answers.
func (l *supersededCheck) await(found <-chan error, asked int) {
	for range asked {
		if err := <-found; err != nil {
			l.breakdown.fail(err)
			return
		}
	}
}

// compare queries the node at an address.
func (l *supersededCheck) compare(ctx context.Context, address string) error {
	hello, err := l.transport.Ping(ctx, address)
	if err != nil || !meta.Supersedes(hello.ClusterID, l.own) {
		return nil //nolint:nilerr // a node that does not respond is ignored
	}
	return fmt.Errorf("%w: %s at %s is in cluster %s, the data here belongs to cluster %s and is left unchanged: to join, move the data directory away and start with an empty one",
		ErrSuperseded, hello.Node, address, hello.ClusterID, l.own)
}

// explain returns the reason why the node is no longer a member of its cluster.
func (l *supersededCheck) explain(ctx context.Context, err error) error {
	if superseded := l.run(ctx); errors.Is(superseded, ErrSuperseded) {
		return superseded
	}
	return fmt.Errorf("metadata: %w", err)
}

// supersededCheck returns the check with the configured nodes and the known members.
func (n *Node) supersededCheck() *supersededCheck {
	addresses := slices.Clone(n.o.Join)
	for _, m := range n.Members().Members {
		addresses = append(addresses, m.Address)
	}
	slices.Sort(addresses)
	addresses = slices.DeleteFunc(slices.Compact(addresses), func(a string) bool { return a == n.o.Address || formation.AddressUnknown(a) })
	return &supersededCheck{n.formation.Cluster(), addresses, n.transport, n.work, &n.breakdown}
}
