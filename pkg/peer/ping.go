package peer

import (
	"context"
	"time"
)

// Pong is a node's answer to the question which node it is.
type Pong struct {
	Node        Node
	ClusterID   string // "": it is in no cluster yet
	Build       string
	Incarnation uint64 // different after a restart
	Features    uint64
	MinVersion  uint16 // of the protocol
	MaxVersion  uint16
	RoundTrip   time.Duration // of connecting and exchanging hellos
}

// Ping asks which node is at an address, over a connection of its own. It works between nodes of
// different clusters and of none. It fails when ctx ends or after the timeouts of Options. An error
// is an *UnreachableError. If a node answered and refused, it contains a *RefusedError: Ping of the
// node's own address fails with ReasonSelf.
func (t *Transport) Ping(ctx context.Context, address string) (Pong, error) {
	began := time.Now()
	conn, h, err := t.dialFor(ctx, "", ClassPing, address)
	if err != nil {
		return Pong{}, err
	}
	conn.Close()
	return Pong{
		Node: h.Node, ClusterID: h.ClusterID, Build: h.Build, Incarnation: h.Incarnation,
		Features: h.Features, MinVersion: h.MinVersion, MaxVersion: h.MaxVersion,
		RoundTrip: time.Since(began),
	}, nil
}
