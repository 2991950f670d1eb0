package server

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/nsq"
)

// errStopped ends the reading of a connection that the server itself ends.
var errStopped = errors.New("connection closed by server")

// meteredConn is a connection's socket. It counts bytes and keeps the read deadline:
// patience after the last command, without touching the timer for each. A
// deadline that passes while commands have come since is set again.
//
// Read and what it uses belong to the reader, stop to anyone.
type meteredConn struct {
	net.Conn
	counters *counters
	ahead    []byte // to be read before the socket

	patience time.Duration   // 0: for ever
	since    time.Time       // the patience counts from here
	alive    bool            // a command came since the last Read
	idle     func()          // called before the socket is waited for
	armed    time.Time       // the socket's deadline
	body     arriving        // what is being read
	raw      syscall.RawConn // of the socket; nil: it has none
	turns    *limit.Turns
	taken    bool   // a turn is taken, for what is read
	executed func() // ends the burst of the last read; nil: it was none

	stopped  atomic.Bool
	retiring atomic.Pointer[time.Time] // until when at most more is read: see retire; nil: for ever
	retired  func()                    // called once before the first Read after retire
	owed     func() bool               // whether the client waits for answers
	quiet    time.Duration             // how long nothing has come from a client that is silent
}

// burst is what one read brings of commands, in bytes, that others may have to wait for:
// some hundred commands.
const burst = 32 << 10

// Read reads from the socket.
func (c *meteredConn) Read(p []byte) (int, error) {
	if len(c.ahead) > 0 {
		n := copy(p, c.ahead)
		c.ahead = c.ahead[n:]
		return n, nil
	}
	c.idle()
	c.endBurst()
	if c.taken { // none is held while input is waited for
		c.turns.Give()
		defer c.turns.Acquire()
	}
	var quiet time.Time // since when nothing has come, once the connection is to end
	for {
		if until := c.retiring.Load(); until != nil && c.leave(*until, &quiet) {
			return 0, errStopped
		}
		if err := c.arm(); err != nil {
			return 0, err
		}
		n, err := c.read(p)
		c.counters.bytesIn.Add(uint64(n))
		c.body.read += n
		if n >= burst {
			c.executed = c.turns.Burst()
		}
		if n > 0 || err == nil {
			return n, nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, err
		}
		if c.stopped.Load() {
			return 0, errStopped
		}
		now := time.Now()
		if c.patience > 0 && now.Sub(c.since) >= c.patience || c.body.late(now) {
			return 0, err
		}
		c.armed = time.Time{} // passed too early: once more
	}
}

// leave reports whether the reading ends that retire has bounded. quiet is since when the Read waits.
func (c *meteredConn) leave(until time.Time, quiet *time.Time) bool {
	if c.retired != nil {
		c.retired()
		c.retired = nil
	}
	now := time.Now()
	if quiet.IsZero() || c.owed() {
		*quiet = now
	}
	return !now.Before(until) || c.body.look.IsZero() && now.Sub(*quiet) >= c.quiet
}

// endBurst is called when what was read last is executed.
func (c *meteredConn) endBurst() {
	if c.executed != nil {
		c.executed()
		c.executed = nil
	}
}

// read reads from the socket: much in turns, as long as it need not be waited for.
func (c *meteredConn) read(p []byte) (n int, err error) {
	if !c.body.long() || c.raw == nil {
		return c.Conn.Read(p)
	}
	waited := c.raw.Read(func(fd uintptr) (done bool) {
		c.turns.Acquire()
		defer c.turns.Give()
		for {
			if n, err = syscall.Read(int(fd), p); !errors.Is(err, syscall.EINTR) {
				return !errors.Is(err, syscall.EAGAIN)
			}
		}
	})
	switch {
	case waited != nil:
		return 0, waited
	case err != nil:
		return 0, os.NewSyscallError("read", err)
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return n, nil
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
	if look := c.body.look; !look.IsZero() && (due.IsZero() || look.Before(due)) {
		due = look
	}
	retiring := c.retiring.Load()
	if retiring != nil { // looked at often, for a moment
		due, c.armed = time.Now().Add(quietTime/2), time.Time{}
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
	if retiring == nil && c.retiring.Load() != nil {
		return c.arm() // with the deadline of that
	}
	return nil
}

// A body that has been arriving for slowBody at less than slowRate is late while
// others wait for memory.
const (
	slowBody = 5 * time.Second
	slowRate = 64 << 10 // bytes in a second
)

// arriving is the body that a connection reads. The zero value is none.
type arriving struct {
	memory  *limit.Memory
	timeout time.Duration // of a whole body
	began   time.Time
	look    time.Time // when it is looked at whether it is late; zero: there is no body
	read    int       // bytes since it began
}

func (a *arriving) begin(now time.Time) {
	a.began, a.look, a.read = now, now.Add(min(slowBody, a.timeout)), 0
}

func (a *arriving) end() { a.look = time.Time{} }

// freeOfTurns is how much of a body is read without a turn.
const freeOfTurns = 64 << 10

// long reports whether more of the body is to be read in turns.
func (a *arriving) long() bool { return a.read >= freeOfTurns && !a.look.IsZero() }

// late reports whether the body has taken too long, and if not, when to look again.
func (a *arriving) late(now time.Time) bool {
	if a.look.IsZero() || now.Before(a.look) {
		return false
	}
	took := now.Sub(a.began)
	if took >= a.timeout || a.memory.Pressed() && float64(a.read) < took.Seconds()*slowRate {
		return true
	}
	a.look = now.Add(min(slowBody/5, a.timeout-took))
	return false
}

// readBody reads a body of n bytes, which has a bounded time to arrive.
func (c *meteredConn) readBody(r *nsq.Reader, n int) ([]byte, error) {
	if n > r.Buffered() {
		c.body.begin(time.Now())
		defer c.body.end()
	}
	return r.ReadBody(n)
}

// readMPUB reads the body of an MPUB, likewise.
func (c *meteredConn) readMPUB(r *nsq.Reader, l nsq.MPUBLimits) (nsq.MPUB, error) {
	c.body.begin(time.Now())
	defer c.body.end()
	return r.ReadMPUB(l)
}

// setPatience changes how long the client may be silent, from now on.
func (c *meteredConn) setPatience(d time.Duration, now time.Time) {
	c.patience, c.since, c.armed = d, now, time.Time{}
}

// quietTime is what quiet is of all connections, but for tests.
const quietTime = 20 * time.Millisecond

// retire ends the reading between two commands: once the client is silent, while no body is on its way and
// no answer is owed, or at a moment at the latest. A Read fails with errStopped then.
func (c *meteredConn) retire(until time.Time) {
	c.retiring.Store(&until)
	// An error means that the socket is closed, and then nothing reads.
	_ = c.Conn.SetReadDeadline(time.Unix(1, 0))
}

// stop makes the Read in progress and all later ones fail with errStopped.
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
const (
	maxLinger  = 32 << 20
	lingerRead = 16 << 10
)

// linger ends our side and drops what still comes, for a bounded time: closing
// with unread input makes the kernel send a reset, which can overtake the last
// frames.
func (c *meteredConn) linger(d time.Duration, drops *limit.Drops) {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	now := time.Now()
	end := now.Add(d)
	if c.Conn.SetReadDeadline(end) != nil {
		return
	}
	dropped := make([]byte, lingerRead)
	c.body.begin(now)
	for c.body.read = freeOfTurns; c.body.read < maxLinger; {
		n, err := c.read(dropped)
		if c.body.read += n; err != nil || !drops.Wait(n, end) {
			return // how it ends is of no interest
		}
	}
}
