package peer

import "context"

// Ping returns the hello of the node that is at an address, over a connection of its own. It works between nodes of
// different clusters and of none. It fails when ctx ends or after the timeouts of Options. An error
// is an *UnreachableError. If a node answered and refused, it contains a *RefusedError: Ping of the
// node's own address fails with ReasonSelf.
func (t *Transport) Ping(ctx context.Context, address string) (*Hello, error) {
	conn, h, err := t.dialFor(ctx, "", ClassPing, address)
	if err != nil {
		return nil, err
	}
	conn.Close()
	return h, nil
}
