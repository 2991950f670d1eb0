package peer

import (
	"syscall"
	"time"
)

// direct writes to a socket what it takes without waiting. One goroutine uses it
// at a time, in the writer's place.
type direct struct {
	link *link
	raw  syscall.RawConn
	once func(fd uintptr) (done bool) // writeOnce, bound

	data []byte // of the write in progress
	n    int    // bytes of it that the socket took
}

// newDirect returns nil where the link has no socket, or has TLS around it.
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

// write returns how many bytes the socket took. Why it did not take all is for
// the writer to find out, who writes the rest.
func (d *direct) write(data []byte) int {
	d.data, d.n = data, 0
	// The deadline of an earlier write would refuse this one, once it has passed; this one does not wait.
	l := d.link
	if now := time.Now(); l.patience.Sub(now) > l.options.WriteTimeout/2 || l.setPatience(now) == nil {
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
