package peer

import (
	"context"
	"time"
)

// Pong is what a node says of itself when it is asked who it is.
type Pong struct {
	Node        Node
	ClusterID   string // "": it is in no cluster yet
	Build       string
	Incarnation uint64 // another one after a restart
	Features    uint64
	MinVersion  uint16 // of the protocol
	MaxVersion  uint16
	RoundTrip   time.Duration // of connecting and introducing
}

// Ping asks who is at an address, over a connection of its own. It works between
// nodes of different clusters and of none. It gives up with ctx or after
// Options' timeouts. An error is an *UnreachableError; where a node was found
// that refused, a *RefusedError is in it: Ping of the own address ends with
// ReasonSelf.
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
