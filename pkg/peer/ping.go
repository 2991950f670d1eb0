package peer

import (
	"context"
)

// Ping returns what the node at an address says of itself, over a connection of its own. It works between
// nodes of different clusters and of none. It gives up with ctx or after
// Options' timeouts. An error is an *UnreachableError; where a node was found
// that refused, a *RefusedError is in it: Ping of the own address ends with
// ReasonSelf.
func (t *Transport) Ping(ctx context.Context, address string) (*Hello, error) {
	conn, h, err := t.dialFor(ctx, "", ClassPing, address)
	if err != nil {
		return nil, err
	}
	conn.Close()
	return h, nil
}
