package admin

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/broker"
	"github.com/brokerd/brokerd/pkg/nsq"
)

const (
	// firstRead is the most memory that a body gets before any of it is there.
	firstRead = 64 << 10
	// drainBytes and drainTime bound what is read of a body that is refused for
	// its size, so that the client sees the answer and not a reset connection.
	drainBytes = 16 << 20
	drainTime  = 5 * time.Second
)

// errBodyTooLarge is a body above its limit.
var errBodyTooLarge = errors.New("body above its limit")

// bodies lends the buffers that bodies are read into and counts their bytes.
type bodies struct {
	budget  int64
	used    atomic.Int64
	buffers nsq.Buffers
}

func newBodies(budget int64) *bodies { return &bodies{budget: budget} }

// body is one body in a lent buffer.
type body struct {
	from    *bodies
	buf     *[]byte
	charged int64
}

// bytes returns the body. It is valid until release.
func (b *body) bytes() []byte { return *b.buf }

// release gives the buffer back.
func (b *body) release() {
	b.from.buffers.Put(b.buf)
	b.from.used.Add(-b.charged)
	b.buf, b.charged = nil, 0
}

// charge counts the buffer's capacity against the budget.
func (b *body) charge() error {
	more := int64(cap(*b.buf)) - b.charged
	b.charged += more
	if b.from.used.Add(more) > b.from.budget {
		return broker.ErrBusy
	}
	return nil
}

// grow moves the body to a buffer of twice the size.
func (b *body) grow() error {
	old := b.buf
	b.buf = b.from.buffers.Get(2 * cap(*old))
	*b.buf = append(*b.buf, *old...)
	b.from.buffers.Put(old)
	return b.charge()
}

// read reads a request's body of at most limit bytes. It is errBodyTooLarge for
// a longer one, broker.ErrBusy if the budget is spent. The caller releases what
// it gets without an error.
func (s *bodies) read(r *http.Request, limit int) (_ *body, err error) {
	if r.ContentLength > int64(limit) {
		return nil, errBodyTooLarge
	}
	announced := r.ContentLength
	if announced < 0 {
		announced = 0
	}
	// One more than announced, so that the end is found without growing.
	b := &body{from: s, buf: s.buffers.Get(int(min(announced+1, firstRead)))}
	defer func() {
		if err != nil {
			b.release()
		}
	}()
	if err := b.charge(); err != nil {
		return nil, err
	}
	for {
		buf := *b.buf
		if len(buf) == cap(buf) {
			if err := b.grow(); err != nil {
				return nil, err
			}
			buf = *b.buf
		}
		n, err := r.Body.Read(buf[len(buf):cap(buf)])
		*b.buf = buf[:len(buf)+n]
		switch {
		case len(*b.buf) > limit:
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
func drain(w http.ResponseWriter, r *http.Request) {
	if strings.EqualFold(r.Header.Get("Expect"), "100-continue") {
		return
	}
	// Where deadlines are not supported there is no connection to protect.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(drainTime))
	_, _ = io.CopyN(io.Discard, r.Body, drainBytes) // whatever was read helps
}
