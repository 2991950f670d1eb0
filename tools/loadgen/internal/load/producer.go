package load

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"github.com/brokerd/brokerd/test/steps"
	"github.com/brokerd/brokerd/tools/loadgen/internal/body"
	"github.com/brokerd/brokerd/tools/loadgen/internal/broker"
)

// producer publishes to one connection until stopped.
type producer struct {
	id    uint32
	size  int
	pub   broker.Publisher
	seq   uint64
	acked atomic.Int64
	on    *atomic.Bool // latencies are recorded while set
	hist  *hdr.Histogram
	err   atomic.Pointer[error]
}

func (p *producer) fail(err error) { p.err.CompareAndSwap(nil, &err) }

func (p *producer) failed() error {
	if e := p.err.Load(); e != nil {
		return fmt.Errorf("producer %d: %w", p.id, *e)
	}
	return nil
}

// runSync publishes one message at a time.
func (p *producer) runSync(stop <-chan struct{}) {
	b := make([]byte, p.size)
	for {
		select {
		case <-stop:
			return
		default:
		}
		t := clock()
		body.Fill(b, body.Header{Sender: p.id, Seq: p.seq, SentNs: t})
		p.seq++
		if err := p.pub.Publish(b); err != nil {
			p.fail(err)
			return
		}
		if p.on.Load() {
			record(p.hist, clock()-t)
		}
		p.acked.Add(1)
	}
}

// batchBuf is a batch's bodies, reused once it is acknowledged.
type batchBuf struct {
	bodies [][]byte
	sent   int64
	ack    func(error)
}

// buffers makes the window's batches. The channel of free ones is also what
// limits how many are in flight.
func (p *producer) buffers(window, batch int) chan *batchBuf {
	free := make(chan *batchBuf, window)
	for range window {
		bb := &batchBuf{bodies: make([][]byte, batch)}
		mem := make([]byte, batch*p.size)
		for i := range bb.bodies {
			bb.bodies[i] = mem[i*p.size : (i+1)*p.size : (i+1)*p.size]
		}
		bb.ack = func(err error) {
			if err != nil {
				p.fail(err)
			} else {
				if p.on.Load() {
					record(p.hist, clock()-bb.sent)
				}
				p.acked.Add(int64(batch))
			}
			free <- bb
		}
		free <- bb
	}
	return free
}

// send publishes a batch. It reports whether it and all before it succeeded.
func (p *producer) send(bb *batchBuf) bool {
	if p.err.Load() != nil {
		return false
	}
	bb.sent = clock()
	for _, b := range bb.bodies {
		body.Fill(b, body.Header{Sender: p.id, Seq: p.seq, SentNs: bb.sent})
		p.seq++
	}
	if err := p.pub.Send(bb.bodies, bb.ack); err != nil {
		p.fail(err)
		return false
	}
	return true
}

// collect waits for the acknowledgements of all batches in flight.
func (p *producer) collect(free chan *batchBuf) {
	t := time.After(30 * time.Second)
	for range cap(free) {
		select {
		case <-free:
		case <-t:
			p.fail(errors.New("not everything was acknowledged within 30 s of the end"))
			return
		}
	}
}

// runAsync publishes batches until stop is closed or, if n is not zero, n
// messages are sent; then it waits for their acknowledgements.
func (p *producer) runAsync(stop <-chan struct{}, window, batch, n int) {
	free := p.buffers(window, batch)
	for n == 0 || int(p.seq) < n {
		select {
		case <-stop:
			p.collect(free)
			return
		case bb := <-free:
			if !p.send(bb) {
				return
			}
		}
	}
	p.collect(free)
}

func newProducer(ctx context.Context, d broker.Driver, o *Options, id int, on *atomic.Bool) *producer {
	return &producer{id: uint32(id), size: o.Size, pub: steps.Need(d.Publisher(ctx, o.Topic)), on: on, hist: newHist()}
}

// runPaced sends single messages at their due times without waiting for
// acknowledgements, as long as no more than window are missing.
func (p *producer) runPaced(stop <-chan struct{}, window int, start int64, interval float64) {
	free := p.buffers(window, 1)
	for {
		if wait := start + int64(float64(p.seq)*interval) - clock(); wait > 0 {
			time.Sleep(time.Duration(wait))
		}
		select {
		case <-stop:
			p.collect(free)
			return
		case bb := <-free:
			if !p.send(bb) {
				return
			}
		}
	}
}

// runRoom sends batches as fast as acknowledgements and room allow.
func (p *producer) runRoom(stop <-chan struct{}, window, batch int, room chan<- struct{}) {
	free := p.buffers(window, batch)
	for {
		select {
		case <-stop:
			p.collect(free)
			return
		case room <- struct{}{}:
		}
		bb := <-free
		if !p.send(bb) {
			return
		}
	}
}
