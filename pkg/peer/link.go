package peer

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
)

// maxErrorText is how many bytes of an error's text are sent.
const maxErrorText = 1024

const (
	writeStep  = 256 << 10 // bytes for which one write deadline is meant: a link of 256 kbit/s can carry them
	quietTicks = 2         // ticks in which a side has sent nothing, after which it pings
	corkFrames = 64        // frames after which answers are sent although more were read
)

// link is one connection after the exchange of hellos: it has a reader, which calls handlers and
// callbacks, and a writer. A caller that queues few bytes writes them itself, in the writer's
// place. Both ends are links. Only the dialer makes calls.
type link struct {
	conn    net.Conn
	remote  *Hello
	session uint64
	handler func(kind uint8, payload []byte, reply func([][]byte, error)) // nil: calls are refused
	options *Options
	pool    *chunkPool
	memory  *frameMemory
	count   *counters
	out     *outbox

	calls    atomic.Uint64 // the last correlation
	pings    atomic.Uint64 // the last ping's correlation
	pingedAt atomic.Int64  // ns of age when it was queued
	born     time.Time

	dialed     bool      // by this side
	sentBefore uint64    // loads at the last tick; used by the writer
	quiet      int       // ticks since then; used by the writer
	deadline   time.Time // for reading; used by the reader

	writeDeadline time.Time // deadline for writing, as the socket knows it; used by the writer, or by the caller in its place

	group  net.Buffers // of one write; used by the writer
	vector net.Buffers // what the write consumes; used by the writer
}

// run serves the connection until it breaks, and returns the reason. It returns after the last
// callback.
func (l *link) run() error {
	var writer sync.WaitGroup
	writer.Go(func() { l.fail(l.write()) })
	l.fail(l.read())
	writer.Wait()
	for _, done := range l.out.abandoned() {
		l.count.failed.Add(1)
		done(nil, ErrDisconnected)
	}
	return l.out.cause()
}

// fail breaks the connection. It does not end the TLS session: sending TLS's last message can
// block.
func (l *link) fail(err error) {
	l.out.fail(err)
	if s, ok := l.conn.(*tls.Conn); ok {
		s.NetConn().Close()
		return
	}
	l.conn.Close()
}

// call queues a call. If it returns nil, done will be called, otherwise not.
func (l *link) call(kind uint8, payload [][]byte, done func([]byte, error)) error {
	id := l.calls.Add(1)
	header, size := encodeHeader(kind, 0, id, payload)
	if size > l.options.frame(l.remote.Class) {
		return ErrTooBig
	}
	return l.out.call(&header, payload, id, done, bounds{l.options.queue(l.remote.Class), l.options.MaxCalls})
}

// reply answers a call.
func (l *link) reply(kind uint8, id uint64, payload [][]byte, err error) {
	flags := uint8(flagReply)
	if err != nil {
		flags |= flagError
		payload = encodeError(err)
	}
	header, size := encodeHeader(kind, flags, id, payload)
	if size > l.options.frame(l.remote.Class) {
		flags |= flagError
		payload = encodeError(ErrTooBig)
		header, _ = encodeHeader(kind, flags, id, payload)
	}
	if err := l.out.put(&header, payload, l.options.MaxQueuedBytes); errors.Is(err, errSlow) {
		l.fail(err)
	}
}

// encodeError returns the payload of an error: its code and its text.
func encodeError(err error) [][]byte {
	remote := &RemoteError{Text: err.Error()}
	if r, ok := errors.AsType[*RemoteError](err); ok {
		remote = r
	}
	text := remote.Text[:min(len(remote.Text), maxErrorText)]
	b := binary.LittleEndian.AppendUint16(make([]byte, 0, 2+len(text)), remote.Code)
	return [][]byte{append(b, text...)}
}

// read reads frames until the connection breaks.
func (l *link) read() error {
	f := newFrameReader(l, l.options.frame(l.remote.Class), l.pool, l.memory, l.options.DeadAfter)
	defer f.close()
	for {
		fr, err := f.next()
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		if !f.ready() {
			if err := l.handle(fr); err != nil {
				return err
			}
			continue
		}
		if err := l.handleAll(f, fr); err != nil {
			return err
		}
	}
}

// handleAll handles a frame and those that were read with it. The writer waits meanwhile.
func (l *link) handleAll(f *frameReader, fr frame) error {
	l.out.Hold()
	defer l.out.Release()
	for n := 1; ; n++ {
		if err := l.handle(fr); err != nil {
			return err
		}
		if n >= corkFrames || !f.ready() {
			return nil
		}
		var err error
		if fr, err = f.next(); err != nil {
			return fmt.Errorf("read: %w", err)
		}
	}
}

// Read reads from the connection for the frameReader. It fails if nothing has arrived for
// DeadAfter.
func (l *link) Read(b []byte) (int, error) {
	now := time.Now()
	if at := now.Add(l.options.DeadAfter); at.Sub(l.deadline) > l.options.DeadAfter/16 {
		l.conn.SetReadDeadline(at)
		l.deadline = at
	}
	n, err := l.conn.Read(b)
	l.count.received.Add(uint64(n))
	return n, err
}

// handle handles one frame.
func (l *link) handle(fr frame) error {
	switch {
	case fr.flags&flagControl != 0:
		return l.control(fr)
	case fr.flags&flagReply != 0:
		done, ok := l.out.answered(fr.correlation)
		if !ok {
			return fmt.Errorf("%w: response %d without a call", errFrame, fr.correlation)
		}
		b := fr.payload
		if fr.flags&flagError != 0 {
			done(nil, &RemoteError{Code: binary.LittleEndian.Uint16(b), Text: string(b[2:])})
			return nil
		}
		done(b, nil)
		return nil
	case l.handler == nil:
		return fmt.Errorf("%w: unexpected call", errFrame)
	}
	l.count.calls.Add(1)
	kind, id := fr.kind, fr.correlation
	l.handler(kind, fr.payload, func(payload [][]byte, err error) { l.reply(kind, id, payload, err) })
	return nil
}

// control answers a ping, or measures the round trip from the answer to one.
func (l *link) control(fr frame) error {
	if fr.flags&flagReply == 0 {
		header, _ := encodeHeader(0, flagControl|flagReply, fr.correlation, nil)
		if err := l.out.put(&header, nil, l.options.MaxQueuedBytes); errors.Is(err, errSlow) {
			return err
		}
		return nil
	}
	if fr.correlation == l.pings.Load() {
		l.count.roundTrip.Store(int64(time.Since(l.born)) - l.pingedAt.Load())
	}
	return nil
}

// ping sends a ping.
func (l *link) ping() error {
	l.pingedAt.Store(int64(time.Since(l.born)))
	header, _ := encodeHeader(0, flagControl, l.pings.Add(1), nil)
	return l.out.put(&header, nil, l.options.MaxQueuedBytes)
}

// keepAlive sends a ping if necessary. The side that dialed pings at every tick. The other side
// pings only if it has sent nothing for two ticks: otherwise its answers suffice. It sends nothing,
// for example, while it receives a long frame that delays the pings.
func (l *link) keepAlive() error {
	if l.dialed {
		return l.ping()
	}
	sent := l.out.loads()
	if sent != l.sentBefore {
		l.sentBefore, l.quiet = sent, 0
		return nil
	}
	if l.quiet++; l.quiet < quietTicks {
		return nil
	}
	return l.ping()
}

// write writes queued frames until the connection breaks.
func (l *link) write() error {
	tick := time.NewTimer(beat.Until(time.Now(), l.options.KeepAlive))
	defer tick.Stop()
	again := func() error {
		tick.Reset(beat.Until(time.Now(), l.options.KeepAlive))
		err := l.keepAlive()
		l.out.hurry()
		return err
	}
	var out load
	for {
		ok, err := l.out.swap(&out)
		if err != nil {
			return err
		}
		if ok {
			if err := l.send(&out); err != nil {
				return fmt.Errorf("write: %w", err)
			}
			out.reset()
			select {
			case <-tick.C: // also on a busy connection
				if err := again(); err != nil {
					return err
				}
			default:
			}
			continue
		}
		select {
		case <-l.out.wake:
			runtime.Gosched() // a goroutine that is about to queue a frame does so first
		case <-tick.C:
			if err := again(); err != nil {
				return err
			}
		}
	}
}

// send writes a load in steps, each with a deadline of its own.
func (l *link) send(out *load) error {
	l.group = l.group[:0]
	grouped, at := 0, 0
	add := func(b []byte) error {
		for len(b) > 0 {
			n := min(len(b), writeStep-grouped)
			l.group = append(l.group, b[:n])
			b, grouped = b[n:], grouped+n
			if grouped == writeStep {
				if err := l.flush(); err != nil {
					return err
				}
				grouped = 0
			}
		}
		return nil
	}
	for _, p := range out.pieces {
		if err := add(out.encoded[at:p.at]); err != nil {
			return err
		}
		if err := add(p.data); err != nil {
			return err
		}
		at = p.at
	}
	if err := add(out.encoded[at:]); err != nil {
		return err
	}
	return l.flush()
}

// extendWriteDeadline sets how long a write that begins now may take.
func (l *link) extendWriteDeadline(now time.Time) error {
	l.writeDeadline = now.Add(l.options.WriteTimeout)
	return l.conn.SetWriteDeadline(l.writeDeadline)
}

// flush writes the group, in one system call if the connection supports it.
func (l *link) flush() error {
	if len(l.group) == 0 {
		return nil
	}
	_ = l.extendWriteDeadline(time.Now()) // the write returns the error
	l.vector = l.group
	n, err := l.vector.WriteTo(l.conn)
	l.count.sent.Add(uint64(n))
	clear(l.group)
	l.group = l.group[:0]
	return err
}
