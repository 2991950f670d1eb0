package main

import (
	"context"

	"github.com/brokerd/brokerd/internal/config"
	"github.com/brokerd/brokerd/internal/lookupd"
	"github.com/brokerd/brokerd/internal/node"
)

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
