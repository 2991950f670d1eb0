package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/nsq"
)

// Sizes of a connection's buffers.
const (
	readBuffer  = 64 << 10
	keptBuffer  = 1 << 20 // larger buffers are released once they are written
	frameExtras = 128 << 10
)

// owner is notified by the goroutines of a connection.
type owner interface {
	// ended receives a call that the broker has answered, with a nil err, or that the connection
	// has lost.
	ended(c *call, err error)
	// received receives a message. It may keep the body.
	received(cn *conn, m *Message)
	// complained receives an error that belongs to no call.
	complained(cn *conn, err error)
}

// conn is one connection to a broker. Any goroutine may call its methods; one goroutine runs it.
type conn struct {
	address string
	nc      net.Conn
	in      *bufio.Reader
	frames  *nsq.FrameReader
	out     io.Writer
	flush   func() error // of the compressor; nil if there is none
	server  identified
	owner   owner
	timeout time.Duration // maximum time without data from the broker
	headers bool          // messages have headers before their bodies

	wake    chan struct{} // signals that queued is not empty
	goodbye chan struct{} // closed when the broker has answered CLS
	over    chan struct{} // closed when run has returned

	got  atomic.Uint64 // messages received by a consumer
	held atomic.Int64  // of those, the unanswered ones

	mu     sync.Mutex // guards the fields below
	queued []byte     // commands to be written
	spare  []byte     // the buffer written last
	calls  callQueue
	err    error // why the connection ended; nil while it is open
	deaf   bool  // the broker has sent an error after which it executes no further command
}

// callQueue holds the calls of a connection in the order of their commands. The first sent ones
// were written to the socket.
type callQueue struct {
	all  []*call
	head int
	sent int // counted from head
}

func (q *callQueue) push(c *call) { q.all = append(q.all, c) }

func (q *callQueue) len() int { return len(q.all) - q.head }

func (q *callQueue) markSent() { q.sent = q.len() }

// pop removes and returns the first call; nil if none was sent.
func (q *callQueue) pop() *call {
	if q.sent == 0 {
		return nil
	}
	c := q.all[q.head]
	q.all[q.head] = nil
	q.head++
	q.sent--
	switch {
	case q.head == len(q.all):
		q.all, q.head = q.all[:0], 0
	case q.head >= 1024 && q.head*2 >= len(q.all):
		n := copy(q.all, q.all[q.head:])
		clear(q.all[n:])
		q.all, q.head = q.all[:n], 0
	}
	return c
}

// publish queues the command of a call. If it returns false, the connection has ended or the call
// was abandoned, and the caller still owns the call.
func (cn *conn) publish(c *call) (taken bool) {
	cn.mu.Lock()
	if cn.err != nil || !c.toWire() {
		cn.mu.Unlock()
		return false
	}
	c.attempts++
	cn.queued = appendPublish(cn.queued, c)
	cn.calls.push(c)
	cn.mu.Unlock()
	wake(cn.wake)
	return true
}

// queue queues a command that no call waits for. It returns false if the connection has ended.
func (cn *conn) queue(c command) bool {
	cn.mu.Lock()
	if cn.err != nil {
		cn.mu.Unlock()
		return false
	}
	cn.queued = c.appendTo(cn.queued)
	cn.mu.Unlock()
	wake(cn.wake)
	return true
}

// alive reports whether the connection accepts commands.
func (cn *conn) alive() bool {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	return cn.err == nil
}

// end closes the connection with a reason; only the first reason is kept.
func (cn *conn) end(why error) {
	cn.mu.Lock()
	if cn.err == nil {
		cn.err = why
	}
	cn.mu.Unlock()
	_ = cn.nc.Close() // the connection is no longer used
}

// lastRead is for how long a connection is still read that can no longer be written to.
const lastRead = time.Second

// endSoon ends the connection because of a failed write, but reads what the broker may have said before: it
// closes the connection after some errors, such as that of a message which is too big, without reading the rest.
func (cn *conn) endSoon(why error) {
	cn.mu.Lock()
	if cn.err == nil {
		cn.err = why
	}
	cn.mu.Unlock()
	time.AfterFunc(lastRead, func() { cn.end(why) })
}

func (cn *conn) reason() error {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	return cn.err
}

// run reads and writes until the connection ends, ends its calls, and returns the reason.
func (cn *conn) run() error {
	var writing sync.WaitGroup
	writing.Go(cn.writeAll)
	cn.end(cn.readAll())
	wake(cn.wake) // the writer sees it and returns
	writing.Wait()
	cn.giveBack()
	close(cn.over)
	return cn.reason()
}

// giveBack ends the unanswered calls: commands written to the socket may have arrived, the others
// have not.
func (cn *conn) giveBack() {
	cn.mu.Lock()
	why, sent := cn.err, cn.calls.sent
	if cn.deaf {
		sent = 0
	}
	lost := cn.calls.all[cn.calls.head:]
	cn.calls, cn.queued, cn.spare = callQueue{}, nil, nil
	cn.mu.Unlock()
	for i, c := range lost {
		err := fmt.Errorf("%w: %w", ErrConnectionLost, why)
		if i >= sent {
			err = fmt.Errorf("%w: %w", errUnsent, why)
		}
		cn.owner.ended(c, err)
	}
}

// writeAll writes queued commands until the connection ends.
func (cn *conn) writeAll() {
	for range cn.wake {
		cn.mu.Lock()
		if cn.err != nil {
			cn.mu.Unlock()
			return
		}
		batch := cn.queued
		cn.queued, cn.spare = cn.spare[:0], nil
		cn.calls.markSent()
		cn.mu.Unlock()
		if err := cn.write(batch); err != nil {
			cn.endSoon(err)
			return
		}
		if cap(batch) > keptBuffer {
			batch = nil
		}
		cn.mu.Lock()
		cn.spare = batch
		cn.mu.Unlock()
	}
}

// write writes a batch and flushes it.
func (cn *conn) write(batch []byte) error {
	if len(batch) == 0 {
		return nil
	}
	if err := cn.nc.SetWriteDeadline(time.Now().Add(cn.timeout)); err != nil {
		return err
	}
	_, err := cn.out.Write(batch)
	if err == nil && cn.flush != nil {
		err = cn.flush()
	}
	return stalled(err)
}

// readAll processes frames until the connection ends, and returns the reason.
func (cn *conn) readAll() error {
	for {
		kind, data, err := cn.next()
		if err != nil {
			return err
		}
		switch kind {
		case nsq.FrameResponse:
			err = cn.response(data)
		case nsq.FrameError:
			err = cn.failure(serverError(data))
		case nsq.FrameMessage:
			err = cn.message(data)
		default:
			err = fmt.Errorf("%w: unexpected frame of type %d", ErrProtocol, kind)
		}
		if err != nil {
			return err
		}
	}
}

// next reads a frame. The data is valid until the next call.
func (cn *conn) next() (nsq.FrameType, []byte, error) {
	kind, data, err := cn.frames.Next()
	if errors.Is(err, nsq.ErrFrameSize) {
		err = fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return kind, data, stalled(err)
}

var (
	okBytes        = []byte(nsq.OK)
	heartbeatBytes = []byte(nsq.Heartbeat)
	closeWaitBytes = []byte(nsq.CloseWait)
)

func (cn *conn) response(data []byte) error {
	switch {
	case bytes.Equal(data, heartbeatBytes):
		cn.queue(command{name: cmdNOP})
		return nil
	case bytes.Equal(data, closeWaitBytes):
		select {
		case <-cn.goodbye:
		default:
			close(cn.goodbye)
		}
		return nil
	case bytes.Equal(data, okBytes):
		if c := cn.answered(); c != nil {
			cn.owner.ended(c, nil)
			return nil
		}
	}
	return fmt.Errorf("%w: unexpected response %.40q", ErrProtocol, data)
}

func (cn *conn) answered() *call {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	return cn.calls.pop()
}

// failure processes an error frame. Errors about messages belong to no call. After most other
// errors the broker closes the connection, which the next read detects.
func (cn *conn) failure(e *ServerError) error {
	if failure.WireNamed(e.Code).OfMessage() {
		cn.owner.complained(cn, e)
		return nil
	}
	c := cn.answered()
	if lastWords(e.Code) {
		cn.mu.Lock()
		cn.deaf = true
		cn.mu.Unlock()
	}
	if c == nil {
		return e
	}
	cn.owner.ended(c, e)
	return nil
}

// lastWords reports whether a broker, after an error, closes the connection and executes none of
// the commands after the failed one. nsqd and brokerd agree on these codes.
func lastWords(code string) bool {
	switch failure.WireNamed(code) {
	case failure.BadCommand, failure.BadBody, failure.BadMessage, failure.BadTopic, failure.BadPartition, failure.TopicNotExist,
		failure.Unauthorized, failure.AuthFirst, failure.AuthFailed:
		return true
	default:
		return false
	}
}

func (cn *conn) message(data []byte) error {
	m, err := nsq.ParseMessage(data)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	var header []byte
	body := bytes.Clone(m.Body)
	if cn.headers {
		if header, body, err = splitHeader(body); err != nil {
			return err
		}
	}
	cn.owner.received(cn, &Message{
		ID: m.ID, Body: body, Header: header, Timestamp: time.Unix(0, m.Timestamp), Attempts: int(m.Attempts), Node: cn.address, conn: cn,
	})
	return nil
}

// stalled wraps a timeout in ErrStalled.
func stalled(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("%w: %w", ErrStalled, err)
	}
	return err
}

// timedReader limits the time of each read from the socket.
type timedReader struct {
	nc      net.Conn
	timeout time.Duration
}

// Read implements io.Reader.
func (r timedReader) Read(p []byte) (int, error) {
	if err := r.nc.SetReadDeadline(time.Now().Add(r.timeout)); err != nil {
		return 0, err
	}
	return r.nc.Read(p)
}
