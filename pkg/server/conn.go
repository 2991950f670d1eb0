package server

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// errStopped ends the reading of a connection that the server itself ends.
var errStopped = errors.New("connection stopped")

// meteredConn is a connection's socket. It counts bytes and keeps the read deadline:
// patience after the last command, without touching the timer for each. A
// deadline that passes while commands have come since is set anew.
//
// Read and what it uses belong to the reader, stop to anyone.
type meteredConn struct {
	net.Conn
	counters *counters
	ahead    []byte // to be read before the socket

	patience time.Duration // 0: for ever
	since    time.Time     // the patience counts from here
	alive    bool          // a command came since the last Read
	idle     func()        // called before the socket is waited for
	armed    time.Time     // the socket's deadline

	stopped atomic.Bool
}

// Read reads from the socket.
func (c *meteredConn) Read(p []byte) (int, error) {
	if len(c.ahead) > 0 {
		n := copy(p, c.ahead)
		c.ahead = c.ahead[n:]
		return n, nil
	}
	c.idle()
	for {
		if err := c.arm(); err != nil {
			return 0, err
		}
		n, err := c.Conn.Read(p)
		c.counters.bytesIn.Add(uint64(n))
		if n > 0 || err == nil {
			return n, nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, err
		}
		if c.stopped.Load() {
			return 0, errStopped
		}
		if c.patience > 0 && time.Since(c.since) >= c.patience {
			return 0, err
		}
		c.armed = time.Time{} // passed too early: once more
	}
}

// arm sets the deadline where it is needed.
func (c *meteredConn) arm() error {
	if c.alive {
		c.since, c.alive = time.Now(), false
	}
	due := time.Time{}
	if c.patience > 0 {
		due = c.since.Add(c.patience)
	}
	// A deadline that is too early costs one turn of the loop; one that is too
	// late would be wrong.
	if c.armed.IsZero() || due.Before(c.armed) {
		if err := c.Conn.SetReadDeadline(due); err != nil {
			return err
		}
		c.armed = due
	}
	if c.stopped.Load() {
		return errStopped
	}
	return nil
}

// setPatience changes how long the client may be silent, from now on.
func (c *meteredConn) setPatience(d time.Duration, now time.Time) {
	c.patience, c.since, c.armed = d, now, time.Time{}
}

// stop makes the Read under way and all later ones fail with errStopped.
func (c *meteredConn) stop() {
	c.stopped.Store(true)
	// An error means that the socket is closed, and then nothing reads.
	_ = c.Conn.SetReadDeadline(time.Unix(1, 0))
}

// Write writes to the socket.
func (c *meteredConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.counters.bytesOut.Add(uint64(n))
	return n, err
}

// maxLinger bounds what is dropped at the end.
const maxLinger = 32 << 20

// linger ends our side and drops what still comes, for a bounded time: closing
// with unread input makes the kernel send a reset, which can overtake the last
// frames.
func (c *meteredConn) linger(d time.Duration) {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	if c.Conn.SetReadDeadline(time.Now().Add(d)) != nil {
		return
	}
	// How it ends is of no interest.
	_, _ = io.CopyN(io.Discard, c.Conn, maxLinger)
}
