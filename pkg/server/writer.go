package server

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/brokerd/brokerd/internal/buffer"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/nsq"
	"github.com/brokerd/brokerd/pkg/topic"
)

var (
	// errFull makes Take stop: the buffer has to be written first.
	errFull = errors.New("output buffer full")
	// errNoMemory makes Take stop: there is no memory for the next message.
	errNoMemory = errors.New("no memory budget for the next message")
	// errNotDeliverable ends a connection for which messages were taken that this node may not
	// deliver any more, or not certainly.
	errNotDeliverable = errors.New("leadership lost before taken messages were sent")
)

const (
	answerBatch     = 64 // answers taken from the queue at once
	maxTake         = 256
	firstAverage    = 256 // bytes of a message before any was seen
	minWriteTimeout = 10 * time.Second
	maxWriteTimeout = time.Minute
	// slowestReader is the rate in bytes per second at which every client must be able to read: a
	// large message gets that much more time, at most that of its delivery.
	slowestReader = 64 << 10
)

// writer writes a connection's frames. Its fields belong to its goroutine. The reader may change
// them before the goroutine runs, and while it pauses for a handover.
type writer struct {
	link  *link
	mu    sync.Mutex   // held by the goroutine in the writer's place: see direct
	out   io.Writer    // the stream or its compressor
	flush func() error // of the compressor; nil: none

	bufp    *[]byte // the borrowed memory of buf
	buf     []byte
	limit   int         // bytes after which the buffer is written
	average int         // average size of a message frame in bytes
	memory  limit.Share // for buf
	wanted  int         // bytes for the next message for which there was no memory; 0: none
	urgent  bool

	knows    bool          // the client knows the extensions
	interval time.Duration // of heartbeats; 0: none
	delivery time.Duration // how long a message may stay unanswered
	next     time.Time     // when the next heartbeat is due
	timer    *time.Timer
	deadline time.Time // for writing to the socket

	sub     Subscription // nil: nothing to deliver
	dry     bool         // sub has ended
	emitter func(*topic.Delivery) error
	emitted uint64 // messages that were written into the buffer
	sent    uint64 // messages that left the buffer
	batch   [answerBatch]*answer
}

func newWriter(l *link, settings *nsq.Settings) *writer {
	w := &writer{link: l, out: l.conn, average: firstAverage, memory: l.srv.opts.Memory.Share(limit.Deliveries)}
	w.emitter = w.emit
	w.apply(settings)
	return w
}

// apply applies negotiated settings.
func (w *writer) apply(settings *nsq.Settings) {
	w.limit = settings.OutputBufferSize
	w.knows = settings.Knows
	w.interval = settings.Heartbeat
	w.delivery = settings.MsgTimeout
	w.next = time.Now().Add(w.interval)
	if w.timer != nil {
		w.timer.Reset(w.untilBeat(time.Now()))
	}
}

// run writes until the last answer is written, ctx ends or the socket fails.
func (w *writer) run(ctx context.Context) {
	defer close(w.link.writerDone)
	defer w.releaseBuffer()
	w.timer = time.NewTimer(w.untilBeat(time.Now()))
	defer w.timer.Stop()
	w.mu.Lock() // and forever, once it has ended
	for {
		busy, over, err := w.turn(ctx)
		if err != nil {
			w.link.abort(writeEnding(err), err)
			return
		}
		if over {
			return
		}
		if busy {
			continue
		}
		w.releaseBuffer()
		if w.wanted > 0 {
			// If there is no memory, the writer retries, and the message stays in its channel.
			if w.memory.Reserve(ctx, w.wanted) == nil {
				w.wanted = 0
			}
			if ctx.Err() != nil {
				return
			}
			continue
		}
		if !w.rest(ctx) {
			return
		}
	}
}

// rest waits until there may be something to do. Other goroutines may write in the writer's place
// meanwhile. It reports whether the writer continues.
func (w *writer) rest(ctx context.Context) bool {
	ready, mixed := w.link.queue.await()
	if ready {
		return true
	}
	w.mu.Unlock()
	defer w.mu.Lock()
	select {
	case <-w.link.wake:
		if mixed {
			// A goroutine that is about to complete an answer of another log on this processor does
			// so first: then one write takes all answers.
			runtime.Gosched()
		}
	case <-w.timer.C:
		w.timer.Reset(w.untilBeat(time.Now()))
	case <-ctx.Done():
		return false
	}
	return true
}

func writeEnding(err error) Ending {
	if how := endingOf(err); how == EndTimeout {
		return how
	}
	if errors.Is(err, errNotDeliverable) {
		return EndBroker
	}
	return EndNetwork
}

// turn does a part of the work. It reports whether there may be more, and whether the last answer
// was written.
func (w *writer) turn(ctx context.Context) (busy, over bool, err error) {
	now := time.Now()
	answered, over := w.writeAnswers(ctx)
	taken := 0
	if !over {
		if (w.urgent && answered < answerBatch) || len(w.buf) >= w.limit {
			if err := w.send(); err != nil {
				return false, false, err
			}
		}
		taken = w.deliver(now)
		w.beat(now)
	}
	more := taken > 0 || answered == answerBatch
	if over || !more || len(w.buf) >= w.limit || (w.urgent && answered < answerBatch) {
		err = w.send()
	}
	return answered > 0 || taken > 0, over, err
}

// untilBeat returns how long the writer may sleep.
func (w *writer) untilBeat(now time.Time) time.Duration {
	if w.interval == 0 {
		return maxWriteTimeout // any duration will do: there is nothing to do then
	}
	return max(w.next.Sub(now), 0)
}

// beat writes a heartbeat when one is due.
func (w *writer) beat(now time.Time) {
	if w.interval == 0 || now.Before(w.next) {
		return
	}
	w.reserve()
	w.buf = nsq.AppendFrame(w.buf, nsq.FrameResponse, nsq.Heartbeat)
	w.urgent = true
	if w.next = w.next.Add(w.interval); !w.next.After(now) {
		w.next = now.Add(w.interval) // after a long stop: no burst
	}
	w.timer.Reset(w.untilBeat(now))
}

// writeAnswers encodes the answers that are ready and next in order.
func (w *writer) writeAnswers(ctx context.Context) (n int, over bool) {
	n = w.link.queue.popReady(w.batch[:])
	for i, a := range w.batch[:n] {
		w.batch[i] = nil
		if !over {
			over = w.writeAnswer(ctx, a)
		}
		a.release()
	}
	return n, over
}

// writeAnswer encodes one answer and reports whether it was the last one.
func (w *writer) writeAnswer(ctx context.Context, a *answer) (over bool) {
	w.reserve()
	w.urgent = true
	fatal := a.fatal
	switch {
	case a.topic != nil && a.err == nil:
		w.buf = a.traced.appendOK(w.buf)
		a.topic.published.Add(uint64(a.count))
	case a.topic != nil:
		e := publishError(a.verb, a.topic.name, a.err, audienceOf(w.knows || a.verb > nsq.DPub, a.named))
		if e.Fatal() {
			fatal = e
			break
		}
		w.link.srv.counters.errors[e.Code].Add(1)
		w.buf = nsq.AppendFrame(w.buf, nsq.FrameError, e.Error())
	default:
		w.buf = append(w.buf, a.frame...)
	}
	if a.act != nil {
		a.act()
	}
	if a.hand != nil {
		return w.standStill(ctx, a.hand)
	}
	if fatal == nil {
		return a.last
	}
	w.link.srv.counters.errors[fatal.Code].Add(1)
	w.buf = nsq.AppendFrame(w.buf, nsq.FrameError, fatal.Error())
	w.link.stop(EndProtocol, fatal)
	return true
}

// standStill flushes, and lets the reader work on the stream and the writer. It reports whether the
// connection ended meanwhile.
func (w *writer) standStill(ctx context.Context, h *handover) (over bool) {
	if err := w.send(); err != nil {
		w.link.abort(writeEnding(err), err)
		return true
	}
	close(h.still)
	select {
	case <-h.resume:
		return false
	case <-ctx.Done():
		// The reader may still be working. It closes resume in any case.
		<-h.resume
		return true
	}
}

// deliver encodes messages and returns their number.
func (w *writer) deliver(now time.Time) int {
	if w.sub == nil || w.dry {
		return 0
	}
	w.reserve()
	most := min(max((w.limit-len(w.buf))/w.average, 1), maxTake)
	if w.wanted > 0 {
		most = 0 // it only checks itself: a message would be read without effect
	}
	before, seen := len(w.buf), w.emitted
	n, err := w.sub.Take(now, most, w.emitter)
	if got := int(w.emitted - seen); got > 0 {
		w.average = max((3*w.average+(len(w.buf)-before)/got)/4, 1)
	}
	if err != nil && !errors.Is(err, errFull) && !errors.Is(err, errNoMemory) {
		w.dry = true
		w.link.stop(EndBroker, err)
	}
	return n
}

// emit encodes a message unless the buffer is full.
func (w *writer) emit(d *topic.Delivery) error {
	if len(w.buf) >= w.limit {
		return errFull
	}
	form := w.link.form
	if form.Binary {
		return w.emitExtended(form, d)
	}
	m := nsq.Message{Body: d.Body}
	if need := len(w.buf) + m.Size(); need > cap(w.buf) {
		if !w.grow(need) {
			return errNoMemory
		}
	}
	w.buf = nsq.AppendMessage(w.buf, d.Timestamp, d.Attempts, w.link.ids.ID(d.ID), d.Body)
	w.emitted++
	return nil
}

// emitExtended is emit for a consumer that knows the extensions.
func (w *writer) emitExtended(form nsq.Form, d *topic.Delivery) error {
	if need := len(w.buf) + form.Overhead(len(d.Header)) + len(d.Body); need > cap(w.buf) && !w.grow(need) {
		return errNoMemory
	}
	w.buf = form.AppendExtended(w.buf, &nsq.Extended{
		Traced:    nsq.Traced{ID: w.link.ids.ID(d.ID), TraceID: d.TraceID, Position: d.Position, RawSize: int64(d.RawSize)},
		Timestamp: d.Timestamp, Attempts: d.Attempts, Header: d.Header, Body: d.Body,
	})
	w.emitted++
	return nil
}

// smallFrames is enough room for some answers.
const smallFrames = 1 << 10

// reserve makes sure that there is a buffer.
func (w *writer) reserve() {
	if w.bufp == nil {
		w.bufp = w.link.srv.buffers.Get(smallFrames)
		w.buf = *w.bufp
	}
}

// grow moves the buffer to a larger one, at once of the negotiated size, because messages rarely
// come alone. It reports whether there is memory for it.
func (w *writer) grow(need int) bool {
	size := max(need, min(w.limit, 4*cap(w.buf)))
	cost := min(outputCost(size, w.flush != nil), w.memory.Most()) // a message that never fits is sent alone
	if more := max(cost-w.memory.Held(), 0); !w.memory.Try(more) && buffer.Cap(size) > smallOutput {
		w.wanted = cost
		return false
	}
	bigger := w.link.srv.buffers.Get(size)
	buf := append(*bigger, w.buf...)
	w.link.srv.buffers.Put(w.bufp)
	w.bufp, w.buf = bigger, buf
	return true
}

// releaseBuffer returns the empty buffer while there is nothing to write.
func (w *writer) releaseBuffer() {
	w.memory.Close()
	if w.bufp == nil {
		return
	}
	if cap(w.buf) > cap(*w.bufp) { // append has allocated a new one
		*w.bufp = w.buf[:0]
	}
	w.link.srv.buffers.Put(w.bufp)
	w.bufp, w.buf = nil, nil
}

// send writes the buffer, unless it contains messages that may not be delivered any more.
func (w *writer) send() error {
	w.urgent = false
	if len(w.buf) == 0 {
		return nil
	}
	if w.sent != w.emitted && !w.sub.Deliverable(time.Now()) {
		return errNotDeliverable
	}
	w.sent = w.emitted
	err := w.write(w.buf)
	big := cap(w.buf) > max(2*w.limit, 2*smallFrames)
	w.buf = w.buf[:0]
	if big { // the big message has been sent
		w.releaseBuffer()
	}
	return err
}

// write writes data to the stream, within the time that a client may take for that much.
func (w *writer) write(data []byte) error {
	timeout := maxWriteTimeout
	if w.interval > 0 {
		timeout = min(max(w.interval, minWriteTimeout), maxWriteTimeout)
	}
	timeout += min(time.Duration(len(data)/slowestReader)*time.Second, w.delivery)
	// The deadline is between one and one and a half times the timeout ahead, so that it need not be
	// set for each write.
	now := time.Now()
	if left := w.deadline.Sub(now); left < timeout || left > timeout+timeout/2 {
		w.deadline = now.Add(timeout + timeout/2)
		if err := w.link.conn.SetWriteDeadline(w.deadline); err != nil {
			return err
		}
	}
	if _, err := w.out.Write(data); err != nil {
		return err
	}
	if w.flush == nil {
		return nil
	}
	return w.flush()
}
