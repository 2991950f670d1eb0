package nsqclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/nsq"
)

// Run reads and writes until the context ends, the connection fails, or Stop is
// answered; then it closes the connection. It returns nil after Stop, and the
// cause of the context where that ended it. onMessage is called for one message
// at a time; it may call every method but Run and Subscribe. Run is
// called once.
func (c *Conn) Run(ctx context.Context, onMessage func(Message)) error {
	stopped := make(chan struct{})
	var writer sync.WaitGroup
	var writeErr error
	writer.Go(func() {
		if writeErr = c.write(stopped); writeErr != nil {
			_ = c.nc.Close() // ends the reader
		}
	})
	endRead := context.AfterFunc(ctx, func() { _ = c.nc.Close() })
	err := c.read(onMessage)
	endRead()
	close(stopped)
	_ = c.nc.Close() // ends the writer
	writer.Wait()
	c.mu.Lock()
	c.out, c.closed = nil, true
	c.mu.Unlock()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	} else if writeErr != nil && errors.Is(err, net.ErrClosed) {
		err = writeErr
	}
	return err
}

// write carries what is queued to the broker.
func (c *Conn) write(stopped <-chan struct{}) error {
	var batch []byte
	for {
		select {
		case <-c.wake:
		case <-stopped:
			return nil
		}
		c.mu.Lock()
		batch, c.out = c.out, batch[:0]
		c.mu.Unlock()
		if len(batch) == 0 {
			continue
		}
		if err := c.nc.SetWriteDeadline(time.Now().Add(2 * c.beat)); err != nil {
			return err
		}
		if _, err := c.nc.Write(batch); err != nil {
			return err
		}
	}
}

// read handles frames until the connection or the subscription ends.
func (c *Conn) read(onMessage func(Message)) error {
	for {
		if c.frames.in.Buffered() == 0 {
			// A broker is never silent for longer than a heartbeat.
			if err := c.nc.SetReadDeadline(time.Now().Add(2 * c.beat)); err != nil {
				return err
			}
		}
		f, err := c.frames.next()
		if err != nil {
			return err
		}
		over, err := c.handle(f, onMessage)
		if over || err != nil {
			return err
		}
	}
}

// handle handles one frame. over says that the broker has closed the subscription.
func (c *Conn) handle(f frame, onMessage func(Message)) (over bool, err error) {
	switch f.kind {
	case nsq.FrameMessage:
		m, err := f.asMessage()
		if err != nil {
			return false, err
		}
		onMessage(m)
		return false, nil
	case nsq.FrameResponse:
		switch string(f.data) {
		case nsq.Heartbeat:
			c.queue(func(dst []byte) []byte { return append(dst, "NOP\n"...) })
			return false, nil
		case nsq.CloseWait:
			return true, nil
		}
		return false, fmt.Errorf("%w: unexpected response %q", errProtocol, f.data)
	case nsq.FrameError:
		e := f.asError()
		if failure.WireNamed(e.Code).OfMessage() {
			return false, nil // the message had timed out: it will come again
		}
		return false, e
	}
	return false, fmt.Errorf("%w: unexpected frame type %d", errProtocol, f.kind)
}
