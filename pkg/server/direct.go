package server

import (
	"syscall"
	"time"
)

// direct answers publishes, and delivers what is next in a strict channel, from whichever goroutine
// learns what became of them, in the place of the writer while that rests. A writer that is woken for
// one frame costs a change of threads, which takes longer than the write of the frame. Where others
// wait as well the writer gathers their answers.
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

// answer writes the only answer that is in progress, and says whether it did. It does not wait.
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

// plain says whether the socket takes what is in the buffer as it stands, and nothing is in it.
func (d *direct) plain() bool {
	w := d.writer
	return w.flush == nil && len(w.buf) == 0 && w.link.conn.raw != nil && w.out == w.link.conn
}

// write writes the buffer, and says whether the socket took all. What is left is the writer's.
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
		w.urgent = true // the writer finds out why
		return false
	}
	w.releaseBuffer()
	return true
}

// serve delivers what is next, in the place of a writer that rests, or wakes that. A strict channel hands out
// one message at a time: whoever learns that the one before is finished everywhere sends the next.
func (d *direct) serve() {
	if !d.deliver() {
		d.writer.link.poke()
	}
}

// deliver writes what is at hand, and says whether the writer may rest. It does not wait.
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
	// The consumer begins to wait for the one that follows.
	return d.write(now) && w.deliver(now) == 0 && d.idle()
}

// idle gives back what a turn without a message leaves.
func (d *direct) idle() bool {
	d.writer.releaseBuffer()
	return d.writer.wanted == 0
}

// writeOnce writes what the socket takes without waiting.
func (d *direct) writeOnce(fd uintptr) (done bool) {
	if n, err := syscall.Write(int(fd), d.writer.buf); err == nil {
		d.taken = n
	}
	return true
}
