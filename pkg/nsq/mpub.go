package nsq

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/brokerd/brokerd/pkg/failure"
)

// mpubHeader is the length of an MPUB body's message count, and of each
// message's size:
//
//	+----------+-----------------------------+
//	| count: 4 | count x ( size: 4 | body )  |
//	+----------+-----------------------------+
const mpubHeader = 4

// minMPUBMessage is the minimum size of a message in the body of an MPUB.
const minMPUBMessage = mpubHeader + 1

// MPUBLimits limits the body of an MPUB, in bytes.
type MPUBLimits struct {
	Message int // of one message
	Body    int // of the count, and of all messages with their sizes
}

// mpubWalk parses the body of an MPUB as it arrives, and maintains the minimum total length of the
// body.
type mpubWalk struct {
	limits MPUBLimits
	count  int // messages; 0: the count has not arrived
	seen   int // messages whose size has arrived
	pos    int // end of the last parsed header and its message
	least  int // the body is at least this long
}

func newMPUBWalk(l MPUBLimits) mpubWalk { return mpubWalk{limits: l, least: mpubHeader} }

// done reports whether the end of the body is known; it is at pos.
func (w *mpubWalk) done() bool { return w.count > 0 && w.seen == w.count }

// advance parses the headers in body. The body is complete when the walk is done and body reaches
// w.least. An error is an *Error.
func (w *mpubWalk) advance(body []byte) error {
	if w.count == 0 {
		if len(body) < mpubHeader {
			return nil
		}
		count := int32(binary.BigEndian.Uint32(body))
		if most := (w.limits.Body - mpubHeader) / minMPUBMessage; count <= 0 || int(count) > most {
			return Errorf(failure.BadBody, "MPUB invalid message count %d", count)
		}
		w.count, w.pos = int(count), mpubHeader
	}
	for !w.done() && len(body)-w.pos >= mpubHeader {
		if err := w.message(body[w.pos:]); err != nil {
			return err
		}
	}
	w.least = w.pos + (w.count-w.seen)*mpubHeader // an empty message is refused by its size: nothing may follow it
	return nil
}

// message reads the header of the next message.
func (w *mpubWalk) message(header []byte) error {
	size := int32(binary.BigEndian.Uint32(header))
	rest := (w.count - w.seen - 1) * minMPUBMessage
	switch {
	case size <= 0:
		return Errorf(failure.BadMessage, "MPUB invalid message(%d) body size %d", w.seen, size)
	case int(size) > w.limits.Message:
		return Errorf(failure.BadMessage, "MPUB message too big %d > %d", size, w.limits.Message)
	case w.pos+mpubHeader+int(size)+rest > w.limits.Body:
		return Errorf(failure.BadBody, "MPUB body too big %d > %d", w.pos+mpubHeader+int(size)+rest, w.limits.Body)
	}
	w.pos += mpubHeader + int(size)
	w.seen++
	return nil
}

// cutOff returns the error for a body that ends at the current position.
func (w *mpubWalk) cutOff(have int) *Error {
	switch {
	case w.count == 0:
		return Errorf(failure.BadBody, "MPUB failed to read message count")
	case have >= w.pos && !w.done():
		return Errorf(failure.BadMessage, "MPUB failed to read message(%d) body size", w.seen)
	}
	return Errorf(failure.BadMessage, "MPUB failed to read message body")
}

// MPUB is the parsed body of an MPUB.
type MPUB struct {
	body  []byte
	count int
}

// Len returns the length of the body.
func (m MPUB) Len() int { return len(m.body) }

// Count returns the number of its messages.
func (m MPUB) Count() int { return m.count }

// Each calls emit for each message, in order and without copying.
func (m MPUB) Each(emit func(message []byte)) {
	for rest := m.body[min(mpubHeader, len(m.body)):]; len(rest) > 0; {
		size := mpubHeader + int(binary.BigEndian.Uint32(rest))
		emit(rest[mpubHeader:size:size])
		rest = rest[size:]
	}
}

// ReadMPUB reads the complete body of an MPUB after its size. The body ends where the count and
// the sizes inside say, whatever the preceding size: so does nsqd's, and some clients do not
// include the inner sizes in that number. The following data is the next command. The messages are
// valid until the next call of Next. An error is an *Error, that of the source, or the Memory's. If
// the Memory refuses the memory, the body is skipped.
func (r *Reader) ReadMPUB(l MPUBLimits) (MPUB, error) {
	w := newMPUBWalk(l)
	body, err := r.walkInPlace(&w)
	if err == nil && body == nil {
		body, err = r.gatherMPUB(&w)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return MPUB{}, w.cutOff(r.Buffered() + len(body))
	}
	if err != nil {
		return MPUB{}, err
	}
	return MPUB{body, w.count}, nil
}

// walkInPlace reads a body that fits the Reader's buffer and returns it within the buffer. It
// returns nil if the body is longer; the data read so far stays buffered.
func (r *Reader) walkInPlace(w *mpubWalk) ([]byte, error) {
	for {
		if err := w.advance(r.buf[r.r:r.w]); err != nil {
			return nil, err
		}
		switch {
		case w.done() && r.Buffered() >= w.pos:
			body := r.buf[r.r : r.r+w.pos : r.r+w.pos]
			r.r += w.pos
			return body, nil
		case w.least > max(len(r.buf), freeRead): // larger bodies are charged
			return nil, nil
		}
		if err := r.need(w.least); err != nil {
			return nil, err
		}
	}
}

// gatherMPUB reads a body that does not fit the Reader's buffer into a separate one, which grows
// with the data. Excess data stays buffered. With an error it returns the data read so far.
func (r *Reader) gatherMPUB(w *mpubWalk) ([]byte, error) {
	r.releaseBody()
	first, err := r.newBody(bodyStep)
	if err != nil {
		return nil, r.skipMPUB(w, nil, err)
	}
	r.body = first
	var body []byte
	for {
		used := min(w.least-len(body), r.Buffered())
		if body, err = r.gather(body, r.buf[r.r:r.r+used], w.limits.Body); err != nil {
			return nil, r.skipMPUB(w, body, err)
		}
		r.r += used
		if err := w.advance(body); err != nil {
			return body, err
		}
		missing := w.least - len(body)
		if missing == 0 {
			return body, nil
		}
		if r.Buffered() > 0 {
			continue
		}
		if missing < maxRead {
			if err := r.need(1); err != nil {
				return body, err
			}
			continue
		}
		if body, err = r.gather(body, nil, w.limits.Body); err != nil {
			return nil, r.skipMPUB(w, body, err)
		}
		got, err := r.src.Read(body[len(body):min(w.least, cap(body))])
		body = body[:len(body)+got]
		if err != nil && len(body) < w.least {
			return body, err
		}
	}
}

// gather appends more to body, which is in the pooled buffer, and leaves space after it. A full
// buffer is replaced by one of twice its size, at most for max bytes. If the Memory returns an
// error, body is unchanged.
func (r *Reader) gather(body, more []byte, max int) ([]byte, error) {
	if body == nil {
		body = (*r.body)[:0]
	}
	for len(body)+len(more) >= cap(body) && cap(body) < max {
		bigger, err := r.newBody(min(max, 2*cap(body)))
		if err != nil {
			return body, err
		}
		grown := append(*bigger, body...)
		r.releaseBody()
		r.body, body = bigger, grown
	}
	return append(body, more...), nil
}

// skipMPUB reads and drops the data after body up to the end of the MPUB. It returns why the body
// was refused, or why its end could not be found.
func (r *Reader) skipMPUB(w *mpubWalk, body []byte, refusal error) error {
	if err := w.advance(body); err != nil {
		return err
	}
	consumed := len(body)
	header := make([]byte, 0, mpubHeader)
	if consumed > w.pos {
		header = append(header, body[w.pos:]...)
	}
	r.releaseBody()
	for {
		if consumed < w.pos {
			if err := r.skip(w.pos-consumed, nil); err != nil {
				return err
			}
			consumed = w.pos
		}
		if w.done() {
			return refusal
		}
		missing := mpubHeader - len(header)
		if err := r.need(missing); err != nil {
			return noEOF(err)
		}
		header = append(header, r.buf[r.r:r.r+missing]...)
		r.r += missing
		consumed += missing
		if err := w.message(header); err != nil {
			return err
		}
		header = header[:0]
	}
}
