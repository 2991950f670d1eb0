package peer

import (
	"syscall"
	"time"
)

// direct writes to a socket as much as it accepts without waiting. One goroutine at a time uses it,
// instead of the writer.
type direct struct {
	link *link
	raw  syscall.RawConn
	once func(fd uintptr) (done bool) // writeOnce, bound

	data []byte // of the write in progress
	n    int    // bytes of data that the socket took
}

// newDirect returns nil if the link has no socket, or uses TLS.
func newDirect(l *link) *direct {
	socket, ok := l.conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil // closed
	}
	d := &direct{link: l, raw: raw}
	d.once = d.writeOnce
	return d
}

// write returns how many bytes the socket took. If it did not take all, the writer writes the rest
// and finds the error.
func (d *direct) write(data []byte) int {
	d.data, d.n = data, 0
	// An earlier write's deadline that has passed would make this write fail, although it does not
	// wait.
	l := d.link
	if now := time.Now(); l.writeDeadline.Sub(now) > l.options.WriteTimeout/2 || l.extendWriteDeadline(now) == nil {
		_ = d.raw.Write(d.once)
	}
	d.data = nil
	d.link.count.sent.Add(uint64(d.n))
	return d.n
}

func (d *direct) writeOnce(fd uintptr) (done bool) {
	if n, err := syscall.Write(int(fd), d.data); err == nil {
		d.n = n
	}
	return true
}
