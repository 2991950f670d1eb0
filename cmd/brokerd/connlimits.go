package main

import (
	"cmp"
	"log/slog"
	"math"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/brokerd/brokerd/internal/config"
	"github.com/brokerd/brokerd/internal/node"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Parts of the resources that clients may use.
const (
	clientFiles     = 4  // of so many file descriptors, clients may have all but one part
	ownFiles        = 64 // and all but so many, which a node without a load needs
	addressShare    = 2  // one address may have one of so many parts of the connections
	httpShare       = 8  // one of so many parts of the connections is for HTTP alone
	refusalLogEvery = 10 * time.Second
	minOfAddress    = 64
)

// connLimits bounds the connections of clients, over all listeners that it wraps: in total, so
// that the node has descriptors left for its files and the other nodes, and for each
// address, so that one client cannot take all. Loopback is not bounded by address: who
// is there has other means. NSQ clients leave a part of all to HTTP: a node that no longer answers
// probes because many clients are connected would be killed for it, and its clients would overload the
// next node. It may be used by many goroutines.
type connLimits struct {
	max, maxAddress int
	maxNSQ          int        // of max
	files           *vfs.Files // give up descriptors for connections; nil: none do
	log             *slog.Logger

	mu      sync.Mutex // guards what follows
	all     int
	of      map[string]int // by address; entries are above 0
	told    time.Time      // when a refusal was last logged
	refused int            // since then
}

// newConnLimits returns the limits for a process with a limit of open files.
func newConnLimits(limit uint64, l *config.Limits, files *vfs.Files, log *slog.Logger) *connLimits {
	part := limit / clientFiles
	most := int(min(limit-max(part, min(ownFiles, limit-part)), math.MaxInt32))
	share := most
	if l.MaxConnections > 0 {
		share = min(most, l.MaxConnections)
	}
	ofAddress := cmp.Or(l.MaxOfAddress, max(share/addressShare, minOfAddress))
	return &connLimits{max: most, maxNSQ: most - max(most/httpShare, 1), maxAddress: ofAddress, files: files, log: log, of: map[string]int{}}
}

// openFiles returns the process's limit of open files.
func openFiles() uint64 {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return math.MaxInt32
	}
	return l.Cur
}

// enter counts a connection from an address, if there is room for it among most. leave is to be
// called when it has ended.
func (c *connLimits) enter(address net.Addr, most int, now time.Time) (leave func(), ok bool) {
	key, ok := c.count(address, most, now)
	if !ok {
		return nil, false
	}
	c.files.Elsewhere(1)
	return sync.OnceFunc(func() { c.left(key) }), true
}

// count counts a connection, if there is room for it, and returns the address for which
// it counts; "": for none.
func (c *connLimits) count(address net.Addr, most int, now time.Time) (key string, ok bool) {
	if at, tcp := address.(*net.TCPAddr); tcp && !at.IP.IsLoopback() {
		key = at.IP.String()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all >= most || key != "" && c.of[key] >= c.maxAddress {
		c.refuseLocked(address, most, now)
		return key, false
	}
	c.all++
	if key != "" {
		c.of[key]++
	}
	return key, true
}

// refuseLocked counts a refusal and logs it, but not each one: clients that make too many connections
// would fill the log.
func (c *connLimits) refuseLocked(address net.Addr, most int, now time.Time) {
	c.refused++
	if !c.told.IsZero() && now.Sub(c.told) < refusalLogEvery {
		return
	}
	c.log.Warn("connections refused: connection limit reached for an address or in total", "remote", address.String(), "refused", c.refused,
		"of_this_address", c.of[node.HostOf(address.String(), "")], "limit_of_an_address", c.maxAddress, "all", c.all, "limit", most)
	c.told, c.refused = now, 0
}

func (c *connLimits) left(key string) {
	c.files.Elsewhere(-1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if key == "" {
		return
	}
	if c.of[key]--; c.of[key] == 0 {
		delete(c.of, key)
	}
}

// nsq has connections that l accepts counted, and those that are too many closed.
func (c *connLimits) nsq(l net.Listener) net.Listener { return &boundListener{l, c, c.maxNSQ} }

// http does the same for a listener of HTTP, for which NSQ clients leave room.
func (c *connLimits) http(l net.Listener) net.Listener { return &boundListener{l, c, c.max} }

type boundListener struct {
	net.Listener
	limits *connLimits
	most   int // with so many connections of all listeners, no further one is taken
}

// Accept implements net.Listener.
func (l *boundListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		leave, ok := l.limits.enter(conn.RemoteAddr(), l.most, time.Now())
		if !ok {
			_ = conn.Close()
			continue
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			return &boundTCP{tcp, leave}, nil
		}
		return &boundConn{conn, leave}, nil
	}
}

// boundTCP preserves the methods of a TCP connection beyond net.Conn.
type boundTCP struct {
	*net.TCPConn
	leave func()
}

// Close implements net.Conn.
func (c *boundTCP) Close() error { c.leave(); return c.TCPConn.Close() }

type boundConn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *boundConn) Close() error { c.leave(); return c.Conn.Close() }
