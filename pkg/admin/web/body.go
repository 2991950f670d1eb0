package web

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/brokerd/brokerd/internal/buffer"
	"github.com/brokerd/brokerd/pkg/limit"
)

const (
	// firstRead is the maximum memory for a body before any of it has arrived.
	firstRead = 64 << 10
	peekBytes = 512
	// minDrain and drainTime limit how much is read of a body that is refused for its size, or
	// because the node is busy, so that the client receives the response instead of a connection
	// reset. If larger bodies are allowed, twice as much is read.
	minDrain  = 16 << 20
	drainTime = 5 * time.Second
	drainRead = 16 << 10 // at a time
)

// Errors of a body that is not read completely.
var (
	ErrBodyTooLarge = errors.New("request body too large")
	ErrBodyBroken   = errors.New("cannot read request body")
)

// Bodies lends the buffers that bodies are read into, out of a budget.
type Bodies struct {
	memory  *limit.Memory
	buffers buffer.Pool
}

// NewBodies returns Bodies that are paid for from memory; nil: from no budget.
func NewBodies(memory *limit.Memory) *Bodies { return &Bodies{memory: memory} }

// Body is one body in a pooled buffer, with the memory reserved for it and for the data derived
// from it.
type Body struct {
	from  *Bodies
	buf   *[]byte
	share limit.Share
}

// Bytes returns the body. It is valid until Release.
func (b *Body) Bytes() []byte { return *b.buf }

// Release gives the buffer back.
func (b *Body) Release() {
	if b.buf != nil {
		b.from.buffers.Put(b.buf)
	}
	b.share.Close()
	b.buf = nil
}

// grow replaces the buffer of the body by one of at least n bytes, with its contents, after
// reserving memory.
func (b *Body) grow(ctx context.Context, n int) error {
	if err := b.share.Reserve(ctx, buffer.Cap(n)); err != nil {
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

// PayList reserves memory for a list of n elements of a size, derived from the body.
func (b *Body) PayList(ctx context.Context, n int, size uintptr) error {
	return b.share.Reserve(ctx, n*int(size))
}

// Read reads a request's body of at most this many bytes. It returns ErrBodyTooLarge for a longer
// one, and failure.NoMemory if the budget is exhausted. The caller must release a body that it
// gets without an error.
func (s *Bodies) Read(r *http.Request, most int) (_ *Body, err error) {
	if r.ContentLength > int64(most) {
		return nil, ErrBodyTooLarge
	}
	announced := max(r.ContentLength, 0)
	// One more than announced, so that the end is found without growing.
	b := &Body{from: s, share: s.memory.Share(limit.Bodies)}
	defer func() {
		if err != nil {
			b.Release()
		}
	}()
	if err := b.grow(r.Context(), int(min(announced+1, firstRead))); err != nil {
		return nil, err
	}
	for {
		buf := *b.buf
		if len(buf) == cap(buf) {
			if err := b.grow(r.Context(), 2*cap(buf)); err != nil {
				return nil, err
			}
			buf = *b.buf
		}
		n, err := r.Body.Read(buf[len(buf):cap(buf)])
		*b.buf = buf[:len(buf)+n]
		switch {
		case len(*b.buf) > most:
			return nil, ErrBodyTooLarge
		case errors.Is(err, io.EOF):
			return b, nil
		case err != nil:
			return nil, ErrBodyBroken
		}
	}
}

// Peek returns the first bytes of a request's body, at most peekBytes, which stay unread. A client
// that waits for 100 Continue gets it.
func Peek(r *http.Request) []byte {
	b := bufio.NewReaderSize(r.Body, peekBytes)
	head, _ := b.Peek(peekBytes) // an error recurs when the body is read
	r.Body = struct {
		io.Reader
		io.Closer
	}{b, r.Body}
	r.Header.Del("Expect") // data sent from now on must be drained
	return head
}

// drain reads and drops the rest of a refused body, within bounds. A client that waits for 100
// Continue does not get it.
func (h *Handler) drain(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength == 0 || r.ContentLength > h.DrainBytes || strings.EqualFold(r.Header.Get("Expect"), "100-continue") {
		return
	}
	end := time.Now().Add(drainTime)
	// Where deadlines are not supported there is no connection to protect.
	_ = http.NewResponseController(w).SetReadDeadline(end)
	for left := h.DrainBytes; left > 0; {
		n, err := io.CopyN(io.Discard, r.Body, min(left, drainRead))
		if left -= n; err != nil || !h.Drops.Wait(int(n), end) {
			return // whatever was read helps
		}
	}
}
