package admin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/nsq"
)

const (
	// firstRead is the most memory that a body gets before any of it is there.
	firstRead = 64 << 10
	// minDrain and drainTime bound what is read of a body that is refused for its
	// size, or because the node is busy, so that the client sees the answer and not a
	// reset connection. With larger bodies as the limit, twice as much is read.
	minDrain  = 16 << 20
	drainTime = 5 * time.Second
)

// errBodyTooLarge is a body above its limit.
var errBodyTooLarge = errors.New("request body too large")

// bodies lends the buffers that bodies are read into, out of a budget.
type bodies struct {
	memory  *limit.Memory
	buffers nsq.Buffers
}

func newBodies(memory *limit.Memory) *bodies { return &bodies{memory: memory} }

// body is one body in a lent buffer, and what is paid for it and what is made of it.
type body struct {
	from  *bodies
	buf   *[]byte
	share limit.Share
}

// bytes returns the body. It is valid until release.
func (b *body) bytes() []byte { return *b.buf }

// release gives the buffer back.
func (b *body) release() {
	if b.buf != nil {
		b.from.buffers.Put(b.buf)
	}
	b.share.Close()
	b.buf = nil
}

// lend gives the body a buffer for at least n bytes, with what it had, when it is
// paid for.
func (b *body) lend(ctx context.Context, n int) error {
	if err := b.share.Take(ctx, nsq.BufferCap(n)); err != nil {
		return err
	}
	buf := b.from.buffers.Get(n)
	if old := b.buf; old != nil {
		*buf = append(*buf, *old...)
		b.share.Give(cap(*old))
		b.from.buffers.Put(old)
	}
	b.buf = buf
	return nil
}

// payList pays for a list of so many things that is made of the body, of a size each.
func (b *body) payList(ctx context.Context, n int, size uintptr) error {
	return b.share.Take(ctx, n*int(size))
}

// read reads a request's body of at most this many bytes. It is errBodyTooLarge for
// a longer one, limit.ErrNoMemory if the budget is spent. The caller releases what
// it gets without an error.
func (s *bodies) read(r *http.Request, most int) (_ *body, err error) {
	if r.ContentLength > int64(most) {
		return nil, errBodyTooLarge
	}
	announced := r.ContentLength
	if announced < 0 {
		announced = 0
	}
	// One more than announced, so that the end is found without growing.
	b := &body{from: s, share: s.memory.Share(limit.Bodies)}
	defer func() {
		if err != nil {
			b.release()
		}
	}()
	if err := b.lend(r.Context(), int(min(announced+1, firstRead))); err != nil {
		return nil, err
	}
	for {
		buf := *b.buf
		if len(buf) == cap(buf) {
			if err := b.lend(r.Context(), 2*cap(buf)); err != nil {
				return nil, err
			}
			buf = *b.buf
		}
		n, err := r.Body.Read(buf[len(buf):cap(buf)])
		*b.buf = buf[:len(buf)+n]
		switch {
		case len(*b.buf) > most:
			return nil, errBodyTooLarge
		case errors.Is(err, io.EOF):
			return b, nil
		case err != nil:
			return nil, &nsqError{http.StatusInternalServerError, "INTERNAL_ERROR"}
		}
	}
}

// drain reads and drops the rest of a refused body, within bounds. A client that
// waits to be asked for its body is not asked.
func drain(w http.ResponseWriter, r *http.Request, most int64) {
	if r.ContentLength == 0 || r.ContentLength > most || strings.EqualFold(r.Header.Get("Expect"), "100-continue") {
		return
	}
	// Where deadlines are not supported there is no connection to protect.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(drainTime))
	_, _ = io.CopyN(io.Discard, r.Body, most) // whatever was read helps
}
