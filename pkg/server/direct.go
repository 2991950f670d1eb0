package server

import (
	"syscall"
	"time"
)

// direct answers publishes from whichever goroutine learns what became of them, in the
// place of the writer while that rests. A writer that is woken for one answer costs a change of
// threads, which takes longer than the write of the answer. Where others wait as well the
// writer gathers their answers.
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
	if w.sub != nil || w.flush != nil || len(w.buf) > 0 || l.conn.raw == nil || w.out != l.conn {
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
	d.taken = 0
	if w.deadline.Before(time.Now()) {
		w.urgent = true
		return false
	}
	_ = l.conn.raw.Write(d.once)
	l.conn.counters.bytesOut.Add(uint64(d.taken))
	w.buf = append(w.buf[:0], w.buf[d.taken:]...)
	if len(w.buf) > 0 {
		w.urgent = true // the writer finds out why
		return false
	}
	w.releaseBuffer()
	return true
}

// writeOnce writes what the socket takes without waiting.
func (d *direct) writeOnce(fd uintptr) (done bool) {
	if n, err := syscall.Write(int(fd), d.writer.buf); err == nil {
		d.taken = n
	}
	return true
}
