package server

import (
	"syscall"
	"time"
)

// direct writes the answer to a publish, or the next message of a strict channel, from the
// goroutine that learns the result, in the writer's place while the writer rests. Waking the writer
// for one frame would cost a change of threads, which takes longer than writing the frame. If other
// answers wait as well, the writer gathers them.
//
// The zero value answers nothing.
type direct struct {
	writer *writer
	once   func(fd uintptr) (done bool) // writeOnce, bound
	taken  int                          // bytes that the socket took
}

func newDirect(w *writer) *direct {
	d := &direct{writer: w}
	d.once = d.writeOnce
	return d
}

// answer writes the answer if it is the only one in progress, and reports whether it did. It does
// not wait.
func (d *direct) answer() bool {
	w := d.writer
	if !w.mu.TryLock() {
		return false
	}
	defer w.mu.Unlock()
	l := w.link
	if w.sub != nil || !d.plain() {
		return false
	}
	a := l.queue.popOnly()
	if a == nil {
		return false
	}
	w.reserve()
	w.buf = a.traced.appendOK(w.buf)
	a.topic.published.Add(uint64(a.count))
	a.release()
	return d.write(time.Now())
}

// plain reports whether the buffer is empty and is sent without TLS or compression.
func (d *direct) plain() bool {
	w := d.writer
	return w.flush == nil && len(w.buf) == 0 && w.link.conn.raw != nil && w.out == w.link.conn
}

// write writes the buffer, and reports whether the socket took all of it. The writer writes the
// rest.
func (d *direct) write(now time.Time) bool {
	w := d.writer
	d.taken = 0
	if w.deadline.Before(now) {
		w.urgent = true
		return false
	}
	_ = w.link.conn.raw.Write(d.once)
	w.link.conn.counters.bytesOut.Add(uint64(d.taken))
	w.buf = append(w.buf[:0], w.buf[d.taken:]...)
	if len(w.buf) > 0 {
		w.urgent = true // the writer continues and finds the reason
		return false
	}
	w.releaseBuffer()
	return true
}

// serve delivers the next message instead of an idle writer, or wakes the writer. A strict channel
// delivers one message at a time: the goroutine that learns that the previous message is finished
// everywhere sends the next one.
func (d *direct) serve() {
	if !d.deliver() {
		d.writer.link.poke()
	}
}

// deliver writes messages that Take finds without waiting, and reports whether the writer may stay
// idle.
func (d *direct) deliver() bool {
	w := d.writer
	if !w.mu.TryLock() {
		return false
	}
	defer w.mu.Unlock()
	now := time.Now()
	if w.sub == nil || w.dry || w.wanted > 0 || !d.plain() || w.deadline.Before(now) || !w.link.queue.empty() || !w.sub.AtHand() {
		return false
	}
	if w.deliver(now) == 0 {
		return d.idle()
	}
	w.sent = w.emitted
	if !w.sub.Deliverable(time.Now()) { // the process may have been paused since Take
		w.buf = w.buf[:0]
		w.link.abort(EndBroker, errNotDeliverable)
		return true
	}
	// The second deliver makes the consumer wait for the next message.
	return d.write(now) && w.deliver(now) == 0 && d.idle()
}

// idle returns memory after a turn without a message.
func (d *direct) idle() bool {
	d.writer.releaseBuffer()
	return d.writer.wanted == 0
}

// writeOnce writes what the socket accepts without waiting.
func (d *direct) writeOnce(fd uintptr) (done bool) {
	if n, err := syscall.Write(int(fd), d.writer.buf); err == nil {
		d.taken = n
	}
	return true
}
