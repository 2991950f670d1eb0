package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"syscall"

	"github.com/brokerd/brokerd/internal/config"
	"github.com/brokerd/brokerd/pkg/broker"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/server"
)

// Listeners are the bound sockets of a process. A role that is off has none; a
// host name may give it several.
type Listeners struct {
	TCP, HTTP, HTTPS, Lookup, Cluster []net.Listener
}

// portTries is how often another port is tried where the system picked one
// that is not free on every address of a host.
const portTries = 10

// Bind listens on every address of l. On failure it closes what it has bound.
func Bind(ctx context.Context, l config.Listen) (*Listeners, error) {
	var ls Listeners
	for _, role := range []struct {
		key, address string
		bound        *[]net.Listener
	}{
		{"tcp-address", l.TCP, &ls.TCP},
		{"http-address", l.HTTP, &ls.HTTP},
		{"https-address", l.HTTPS, &ls.HTTPS},
		{"lookup-address", l.Lookup, &ls.Lookup},
		{"cluster-address", l.Cluster, &ls.Cluster},
	} {
		if role.address == "" {
			continue
		}
		bound, err := listen(ctx, role.address)
		if err != nil {
			ls.Close()
			return nil, fmt.Errorf("%s: %w", role.key, err)
		}
		*role.bound = bound
	}
	return &ls, nil
}

// WrapClients puts something around each listener that is for clients: of NSQ, and of HTTP.
func (ls *Listeners) WrapClients(nsq, http func(net.Listener) net.Listener) {
	for i, l := range ls.TCP {
		ls.TCP[i] = nsq(l)
	}
	for _, bound := range [][]net.Listener{ls.HTTP, ls.HTTPS, ls.Lookup} {
		for i, l := range bound {
			bound[i] = http(l)
		}
	}
}

// Close closes every socket. It is idempotent.
func (ls *Listeners) Close() {
	for _, bound := range [][]net.Listener{ls.TCP, ls.HTTP, ls.HTTPS, ls.Lookup, ls.Cluster} {
		for _, l := range bound {
			l.Close()
		}
	}
}

// listen binds one address: the path of a unix socket, or host:port, where a
// name means all that it resolves to, on the same port.
func listen(ctx context.Context, address string) ([]net.Listener, error) {
	if config.IsUnix(address) {
		if err := removeStale(address); err != nil {
			return nil, err
		}
		l, err := new(net.ListenConfig).Listen(ctx, "unix", address)
		if err != nil {
			return nil, err
		}
		return []net.Listener{l}, nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &AddressError{err}
	}
	if _, err := netip.ParseAddr(host); err == nil || host == "" {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		return []net.Listener{l}, nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, &AddressError{err}
	}
	for range portTries {
		bound, again := listenEach(ctx, ips, port)
		if err = again; err == nil {
			return bound, nil
		}
		if port != "0" || !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return nil, err
}

// listenEach binds the same port on every address. An address that this
// machine does not have is skipped, as long as one is left.
func listenEach(ctx context.Context, ips []netip.Addr, port string) ([]net.Listener, error) {
	var bound []net.Listener
	var missing error
	seen := map[netip.Addr]bool{}
	for _, ip := range ips {
		ip = ip.Unmap()
		if seen[ip] {
			continue
		}
		seen[ip] = true
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(ip.String(), port))
		switch {
		case err == nil:
			bound = append(bound, l)
			port = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
		case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EAFNOSUPPORT):
			missing = err
		default:
			for _, l := range bound {
				l.Close()
			}
			return nil, err
		}
	}
	if len(bound) == 0 {
		return nil, missing
	}
	return bound, nil
}

// removeStale removes a unix socket that no process listens on: a process that
// is killed leaves it behind.
func removeStale(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return &AddressError{fmt.Errorf("%s exists and is not a socket", path)}
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		conn.Close()
		return nil // listening will report that it is in use
	}
	return os.Remove(path)
}

// Advertised fills in the addresses that the node announces. Each is the
// configured one, or else the bound port with the advertised host, or else with
// the host of the bound address, or with the machine's name where the node
// listens on every address.
func Advertised(a config.Advertise, ls *Listeners, hostname string) config.Advertise {
	for _, role := range []struct {
		address *string
		bound   []net.Listener
	}{
		{&a.TCP, ls.TCP}, {&a.HTTP, ls.HTTP}, {&a.HTTPS, ls.HTTPS}, {&a.Lookup, ls.Lookup}, {&a.Cluster, ls.Cluster},
	} {
		if *role.address != "" || len(role.bound) == 0 {
			continue
		}
		at, ok := role.bound[0].Addr().(*net.TCPAddr)
		if !ok {
			continue
		}
		host := a.Host
		if host == "" && at.IP.IsUnspecified() {
			host = hostname
		}
		if host == "" {
			host = at.IP.String()
		}
		*role.address = net.JoinHostPort(host, strconv.Itoa(at.Port))
	}
	if a.Host == "" {
		if host, _, err := net.SplitHostPort(a.TCP); err == nil {
			a.Host = host
		} else {
			a.Host = hostname
		}
	}
	return a
}

// Exposed lists the addresses that can be reached from other machines.
func (ls *Listeners) Exposed() []string {
	var open []string
	for _, l := range slices.Concat(ls.TCP, ls.HTTP, ls.HTTPS, ls.Lookup, ls.Cluster) {
		if at, ok := l.Addr().(*net.TCPAddr); ok && !at.IP.IsLoopback() {
			open = append(open, at.String())
		}
	}
	return open
}

// HostOf returns the host of host:port, or otherwise if there is none.
func HostOf(address, otherwise string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return otherwise
}

// PortOf returns the port of host:port, or -1 for a unix socket.
func PortOf(address string) int {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return -1
	}
	n, err := net.LookupPort("tcp", port)
	if err != nil {
		return -1
	}
	return n
}

// createTopic makes sure that a topic has a number of partitions, for an NSQ client. It
// refuses to in a cluster of several nodes, where replicas have to be chosen.
func createTopic(ctx context.Context, b *broker.Broker, name string, partitions int, ext bool) error {
	if len(b.Operator.Cluster().Nodes) > 1 {
		return server.ErrClustered
	}
	t, err := b.Directory.Topic(name)
	switch {
	case err != nil:
		_, err = b.Directory.CreateTopic(ctx, name, meta.TopicConfig{Partitions: partitions, Ext: ext})
		if errors.Is(err, failure.TopicExists) { // someone else has made it meanwhile
			return nil
		}
		return err
	case len(t.Partitions) < partitions:
		return b.Directory.AddPartitions(ctx, name, partitions)
	}
	return nil
}
