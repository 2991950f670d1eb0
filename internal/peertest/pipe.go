package peertest

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// memPipe is one direction of an in-memory connection. Everything of it is
// guarded by the network's lock.
type memPipe struct {
	network  *Network
	edge     *memEdge // that the stream takes
	back     *memEdge // the other direction
	changed  *sync.Cond
	onTheWay []memParcel
	bytes    int  // of onTheWay
	ended    bool // the writer will write no more
	shut     bool // the reader will read no more
	reset    bool
}

// memParcel is what was written at once. The last one of a stream is empty.
type memParcel struct {
	data []byte
	at   time.Time // when it arrives
	size int       // of what was written
}

func newMemPipe(n *Network, edge, back *memEdge) *memPipe {
	p := &memPipe{network: n, edge: edge, back: back, changed: sync.NewCond(&n.mu)}
	edge.pipes[p] = struct{}{}
	return p
}

func (p *memPipe) resetLocked() {
	p.reset, p.onTheWay, p.bytes = true, nil, 0
	delete(p.edge.pipes, p)
	p.changed.Broadcast()
}

// sendLocked puts a piece on the way; an empty one ends the stream.
func (p *memPipe) sendLocked(data []byte) {
	at := time.Now()
	if rate := p.edge.link.Rate; rate > 0 {
		if p.edge.free.After(at) {
			at = p.edge.free
		}
		at = at.Add(time.Duration(len(data)) * time.Second / time.Duration(rate))
		p.edge.free = at
	}
	at = at.Add(p.edge.link.Delay)
	if n := len(p.onTheWay); n > 0 && at.Before(p.onTheWay[n-1].at) {
		at = p.onTheWay[n-1].at // bytes do not overtake each other
	}
	p.onTheWay = append(p.onTheWay, memParcel{data, at, len(data)})
	p.bytes += len(data)
	p.changed.Broadcast()
}

// readLocked reads what has arrived, or waits for it until the deadline.
func (p *memPipe) readLocked(b []byte, deadline *time.Time) (int, error) {
	for {
		now := time.Now()
		switch {
		case p.shut:
			return 0, net.ErrClosed
		case p.reset:
			return 0, syscall.ECONNRESET
		case !deadline.IsZero() && !now.Before(*deadline):
			return 0, os.ErrDeadlineExceeded
		case len(b) == 0:
			return 0, nil
		}
		next := *deadline
		if len(p.onTheWay) > 0 && !p.edge.link.holds(&p.onTheWay[0]) {
			head := &p.onTheWay[0]
			if !now.Before(head.at) {
				return p.arrivedLocked(head, b)
			}
			if next.IsZero() || head.at.Before(next) {
				next = head.at
			}
		}
		p.waitLocked(next)
	}
}

// holds reports whether a piece waits until the link changes.
func (l *Link) holds(piece *memParcel) bool {
	return l.Cut || l.Largest > 0 && piece.size > l.Largest
}

func (p *memPipe) arrivedLocked(head *memParcel, b []byte) (int, error) {
	if len(head.data) == 0 {
		return 0, io.EOF
	}
	n := copy(b, head.data)
	head.data = head.data[n:]
	p.bytes -= n
	if len(head.data) == 0 {
		p.onTheWay = p.onTheWay[1:]
	}
	p.changed.Broadcast()
	return n, nil
}

// writeLocked passes b on as room becomes available, until the deadline.
func (p *memPipe) writeLocked(b []byte, deadline *time.Time) (written int, err error) {
	for {
		switch {
		case p.ended:
			return written, net.ErrClosed
		case p.reset:
			return written, syscall.ECONNRESET
		case p.shut && !p.back.link.Cut: // the other side reads against the stream
			return written, syscall.EPIPE
		case !deadline.IsZero() && !time.Now().Before(*deadline):
			return written, os.ErrDeadlineExceeded
		case len(b) == 0:
			return written, nil
		}
		if room := memCapacity - p.bytes; room > 0 && !p.edge.link.Block {
			n := min(room, len(b))
			if p.edge.link.Rate > 0 {
				n = min(n, memPacket)
			}
			p.sendLocked(append([]byte(nil), b[:n]...))
			b, written = b[n:], written+n
			continue
		}
		p.waitLocked(*deadline)
	}
}

// waitLocked waits for a change, or for a time unless it is zero.
func (p *memPipe) waitLocked(until time.Time) {
	if until.IsZero() {
		p.changed.Wait()
		return
	}
	p.network.waitLocked(p.changed, time.Until(until))
}

// memConn is one end of an in-memory connection.
type memConn struct {
	network                     *Network
	local, remote               memAddr
	in, out                     *memPipe
	readDeadline, writeDeadline time.Time // guarded by the network's lock
}

// Read reads what has arrived.
func (c *memConn) Read(b []byte) (int, error) {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	n, err := c.in.readLocked(b, &c.readDeadline)
	return n, c.wrap("read", err)
}

// Write sends b, and blocks while too much is on the way.
func (c *memConn) Write(b []byte) (int, error) {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	n, err := c.out.writeLocked(b, &c.writeDeadline)
	return n, c.wrap("write", err)
}

// wrap names the connection in an error, as sockets do.
func (c *memConn) wrap(op string, err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // readers compare it
		return err
	}
	return &net.OpError{Op: op, Net: "memory", Source: c.local, Addr: c.remote, Err: err}
}

// Close ends both directions. Data already written still arrives.
func (c *memConn) Close() error {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	if c.out.ended {
		return c.wrap("close", net.ErrClosed)
	}
	c.out.ended, c.in.shut = true, true
	c.in.onTheWay, c.in.bytes = nil, 0
	if c.out.shut || c.out.reset {
		delete(c.out.edge.pipes, c.out)
		delete(c.in.edge.pipes, c.in)
	}
	if !c.out.reset {
		c.out.sendLocked(nil)
	}
	c.in.changed.Broadcast()
	c.out.changed.Broadcast()
	return nil
}

// LocalAddr returns this end's address.
func (c *memConn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the other end's address.
func (c *memConn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines.
func (c *memConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline sets when reading gives up, for a Read in progress, too.
func (c *memConn) SetReadDeadline(t time.Time) error {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	c.readDeadline = t
	c.in.changed.Broadcast()
	return nil
}

// SetWriteDeadline sets when writing gives up, for a Write in progress, too.
func (c *memConn) SetWriteDeadline(t time.Time) error {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	c.writeDeadline = t
	c.out.changed.Broadcast()
	return nil
}
