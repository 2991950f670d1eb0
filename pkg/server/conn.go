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

// meteredConn is a connection's socket. It counts bytes, and closes the connection when no command
// has arrived for the idleTimeout. It does not set a timer for each command: if a deadline passes
// although commands have arrived since, it sets the deadline again.
//
// The reader uses Read and its fields. Any goroutine may call stop.
type meteredConn struct {
	net.Conn
	counters *counters
	ahead    []byte // read before the socket

	idleTimeout time.Duration   // 0: no limit
	since       time.Time       // when the idleTimeout began
	alive       bool            // a command arrived since the last Read
	idle        func()          // called before waiting for the socket
	armed       time.Time       // the socket's deadline
	body        arriving        // the body that is being read
	raw         syscall.RawConn // of the socket; nil: there is none
	turns       *limit.Turns
	taken       bool   // the reader has a turn, for what is read
	executed    func() // ends the burst of the last read; nil: there was none

	stopped  atomic.Bool
	retiring atomic.Pointer[time.Time] // the time after which nothing is read any more: see retire; nil: none
	retired  func()                    // called once before the first Read after retire
	owed     func() bool               // whether the client waits for answers
	quiet    time.Duration             // how long a client must have sent nothing to count as silent
}

// burst is how many bytes of commands one read may bring before others have to wait for a turn:
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
	if c.taken { // the reader keeps no turn while it waits for input
		c.turns.Give()
		defer c.turns.Acquire()
	}
	var quiet time.Time // since when nothing has arrived, once the connection has to end
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
		if c.idleTimeout > 0 && now.Sub(c.since) >= c.idleTimeout || c.body.late(now) {
			return 0, err
		}
		c.armed = time.Time{} // it passed too early: try again
	}
}

// leave reports whether reading has to end after retire. quiet is since when the Read waits.
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

// endBurst is called when the commands of the last read have been executed.
func (c *meteredConn) endBurst() {
	if c.executed != nil {
		c.executed()
		c.executed = nil
	}
}

// read reads from the socket. It reads large amounts in turns, as long as it need not wait for
// them.
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

// arm sets the deadline if that is necessary.
func (c *meteredConn) arm() error {
	if c.alive {
		c.since, c.alive = time.Now(), false
	}
	due := time.Time{}
	if c.idleTimeout > 0 {
		due = c.since.Add(c.idleTimeout)
	}
	if look := c.body.look; !look.IsZero() && (due.IsZero() || look.Before(due)) {
		due = look
	}
	retiring := c.retiring.Load()
	if retiring != nil { // checks often, for a short time
		due, c.armed = time.Now().Add(quietTime/2), time.Time{}
	}
	// A deadline that is too early costs one more loop. A deadline that is too late would be wrong.
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

// A body that has been arriving for slowBody, at less than slowRate, is late if other connections
// wait for memory.
const (
	slowBody = 5 * time.Second
	slowRate = 64 << 10 // bytes in a second
)

// arriving is the body that a connection reads. The zero value means that there is none.
type arriving struct {
	memory  *limit.Memory
	timeout time.Duration // for a whole body
	began   time.Time
	look    time.Time // when to check next whether it is late; zero: there is no body
	read    int       // bytes since it began
}

func (a *arriving) begin(now time.Time) {
	a.began, a.look, a.read = now, now.Add(min(slowBody, a.timeout)), 0
}

func (a *arriving) end() { a.look = time.Time{} }

// freeOfTurns is how many bytes of a body are read without a turn.
const freeOfTurns = 64 << 10

// long reports whether the rest of the body has to be read in turns.
func (a *arriving) long() bool { return a.read >= freeOfTurns && !a.look.IsZero() }

// late reports whether the body has taken too long. If not, it sets the time of the next check.
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

// readBody reads a body of n bytes, which must arrive in a bounded time.
func (c *meteredConn) readBody(r *nsq.Reader, n int) ([]byte, error) {
	if n > r.Buffered() {
		c.body.begin(time.Now())
		defer c.body.end()
	}
	return r.ReadBody(n)
}

// readMPUB reads the body of an MPUB in the same way.
func (c *meteredConn) readMPUB(r *nsq.Reader, l nsq.MPUBLimits) (nsq.MPUB, error) {
	c.body.begin(time.Now())
	defer c.body.end()
	return r.ReadMPUB(l)
}

// setIdleTimeout changes how long the client may be silent, from now on.
func (c *meteredConn) setIdleTimeout(d time.Duration, now time.Time) {
	c.idleTimeout, c.since, c.armed = d, now, time.Time{}
}

// quietTime is the default of quiet. Tests use other values.
const quietTime = 20 * time.Millisecond

// retire ends the reading between two commands: as soon as the client is silent, no body is
// arriving and no answer is owed, at the latest at a given time. Read then fails with errStopped.
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

// Limits of what linger drops.
const (
	maxLinger  = 32 << 20
	lingerRead = 16 << 10
)

// linger ends this side of the connection and drops further input, for a bounded time: if a socket
// with unread input is closed, the kernel sends a reset, which can overtake the last frames.
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
			return // the error does not matter
		}
	}
}
