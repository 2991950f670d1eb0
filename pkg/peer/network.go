package peer

import (
	"context"
	"net"
)

// Network is the interface to the network: TCP, or one in memory in tests.
type Network interface {
	// Dial connects to address from the local host. If local is "" or an unspecified address, it
	// connects from any. If no process listens there, the error wraps syscall.ECONNREFUSED.
	Dial(ctx context.Context, local, address string) (net.Conn, error)
	// Listen starts to accept connections to address.
	Listen(address string) (net.Listener, error)
}

// TCP is the operating system's network.
type TCP struct{}

// Dial connects by TCP.
func (TCP) Dial(ctx context.Context, local, address string) (net.Conn, error) {
	d := net.Dialer{KeepAlive: -1} // the protocol has pings of its own
	if local != "" {
		addr, err := net.ResolveTCPAddr("tcp", net.JoinHostPort(local, "0"))
		if err != nil {
			return nil, err
		}
		if !addr.IP.IsUnspecified() {
			d.LocalAddr = addr
		}
	}
	return d.DialContext(ctx, "tcp", address)
}

// Listen listens by TCP.
func (TCP) Listen(address string) (net.Listener, error) {
	return net.Listen("tcp", address)
}
