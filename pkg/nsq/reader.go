package nsq

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/brokerd/brokerd/internal/buffer"
	"github.com/brokerd/brokerd/pkg/seq"
)

// maxLine is the longest command line, its end included.
const maxLine = 16 << 10

const (
	minRead  = 1 << 10  // buffer of a connection with little traffic
	maxRead  = 64 << 10 // and of one with much traffic
	bodyStep = 64 << 10 // initial size of the buffer of a long body
)

// freeRead is the size up to which the buffer of a Reader is not charged: every connection has it,
// for the longest command line.
const freeRead = maxLine

// Memory is charged for the memory of a Reader, before it is allocated and until it is released.
// The Reader's goroutine calls its methods.
type Memory interface {
	// Take reserves n bytes. It may wait, and returns an error if there is no memory.
	Take(n int) error
	// Try reserves n bytes if they are available.
	Try(n int) bool
	Give(n int)
}

// unlimitedMemory is a Memory without a limit.
type unlimitedMemory struct{}

func (unlimitedMemory) Take(int) error { return nil }
func (unlimitedMemory) Try(int) bool   { return true }
func (unlimitedMemory) Give(int)       {}

// Errors of a Reader, in addition to those of its source.
var (
	// ErrLineTooLong ends a connection, because the start of the next command is unknown.
	ErrLineTooLong = errors.New("command line too long")
	// ErrBadID: in raw mode, an id does not end where it should.
	ErrBadID = errors.New("message id of wrong length")
)

// Reader reads commands. It is for one goroutine.
//
// Its buffer is small while little data arrives, and grows with the data read at once. A short
// body is returned within the buffer; a long one is collected in a second buffer, which is
// released at the next command.
type Reader struct {
	src     io.Reader
	buffers *buffer.Pool
	memory  Memory
	bufp    *[]byte // backs buf; nil before the first read
	buf     []byte
	r, w    int // buf[r:w] has been read and not consumed
	want    int // size of the next buffer
	quiet   int // consecutive reads that a smaller buffer could have held
	line    []byte
	body    *[]byte // pooled buffer for a long body
	rawIDs  bool
}

// NewReader returns a Reader of src that uses pooled buffers.
func NewReader(src io.Reader, buffers *buffer.Pool) *Reader {
	return &Reader{src: src, buffers: buffers, memory: unlimitedMemory{}, want: minRead}
}

// SetMemory makes the Reader charge p for its memory. It must be called before the first read.
func (r *Reader) SetMemory(p Memory) { r.memory = p }

// SetRawIDs makes the Reader parse the id in FIN, REQ and TOUCH by its length, for connections
// with binary ids, which may contain a space or a line end. Otherwise ids are text, and a short id
// is detected at once.
func (r *Reader) SetRawIDs(on bool) { r.rawIDs = on }

// Buffered returns the number of bytes that were read and not consumed.
func (r *Reader) Buffered() int { return r.w - r.r }

// Replace makes src the source of all further data. Data already buffered from the old source
// should be taken with TakeBuffered before.
func (r *Reader) Replace(src io.Reader) { r.src = src }

// TakeBuffered consumes and returns a copy of the buffered data.
func (r *Reader) TakeBuffered() []byte {
	ahead := bytes.Clone(r.buf[r.r:r.w])
	r.r, r.w = 0, 0
	return ahead
}

// Release releases all buffers. The Reader must not be used after it.
func (r *Reader) Release() {
	r.releaseBody()
	r.buffers.Put(r.bufp)
	r.memory.Give(charged(len(r.buf)))
	r.bufp, r.buf, r.r, r.w = nil, nil, 0, 0
}

// ReadMagic reads the first bytes of a connection and reports whether they
// announce the protocol.
func (r *Reader) ReadMagic() (bool, error) {
	if err := r.need(len(Magic)); err != nil {
		return false, err
	}
	ok := string(r.buf[r.r:r.r+len(Magic)]) == Magic
	r.r += len(Magic)
	return ok, nil
}

// Next reads a command line into c. All data returned by earlier calls becomes invalid. io.EOF
// means that the source ended between commands.
func (r *Reader) Next(c *Command) error {
	r.releaseBody()
	if r.rawIDs {
		done, err := r.nextRaw(c)
		if done || err != nil {
			return err
		}
	}
	end, err := r.findEnd()
	if err != nil {
		return err
	}
	text := r.buf[r.r : r.r+end]
	r.r += end + 1
	if n := len(text); n > 0 && text[n-1] == '\r' {
		text = text[:n-1]
	}
	r.line = append(r.line[:0], text...)
	c.split(r.line)
	return nil
}

// LineSize returns the size of the last line that Next has read, its end included.
func (r *Reader) LineSize() int { return len(r.line) + 1 }

// findEnd returns the length of the next line without its end.
func (r *Reader) findEnd() (int, error) {
	for seen := 0; ; {
		if i := bytes.IndexByte(r.buf[r.r+seen:r.w], '\n'); i >= 0 {
			if seen+i >= maxLine {
				return 0, ErrLineTooLong
			}
			return seen + i, nil
		}
		seen = r.Buffered()
		if seen >= maxLine {
			return 0, ErrLineTooLong
		}
		if err := r.need(seen + 1); err != nil {
			if seen > 0 && errors.Is(err, io.EOF) {
				return 0, io.ErrUnexpectedEOF
			}
			return 0, err
		}
	}
}

// nextRaw reads FIN, REQ or TOUCH with an id of any 16 bytes. It returns false if the line is
// another command.
func (r *Reader) nextRaw(c *Command) (bool, error) {
	if err := r.need(1); err != nil {
		return false, err
	}
	var prefix string
	for _, p := range [...]string{"FIN ", "REQ ", "TOUCH "} {
		if r.buf[r.r] == p[0] {
			prefix = p
		}
	}
	for i := range len(prefix) {
		if err := r.need(i + 1); err != nil {
			return false, noEOF(err)
		}
		if r.buf[r.r+i] != prefix[i] {
			return false, nil
		}
	}
	if prefix == "" {
		return false, nil
	}
	head := len(prefix) + seq.HexLen
	if err := r.need(head + 1); err != nil {
		return false, noEOF(err)
	}
	r.line = append(r.line[:0], r.buf[r.r:r.r+head]...)
	r.r += head
	rest, err := r.findEnd()
	if err != nil {
		return false, noEOF(err)
	}
	tail := bytes.TrimSuffix(r.buf[r.r:r.r+rest], []byte{'\r'})
	r.r += rest + 1
	if len(tail) > 0 && tail[0] != ' ' {
		return true, ErrBadID
	}
	r.line = append(r.line, tail...)
	c.split(r.line[head:]) // further parameters, after an empty word
	copy(c.params[1:], c.params[:maxParams-1])
	c.name, c.params[0], c.n = r.line[:len(prefix)-1], r.line[len(prefix):head:head], c.n+1
	c.Verb = parseVerb(c.name)
	return true, nil
}

// ReadSize reads the size that precedes a body.
func (r *Reader) ReadSize() (int32, error) {
	if err := r.need(4); err != nil {
		return 0, noEOF(err)
	}
	n := int32(binary.BigEndian.Uint32(r.buf[r.r:]))
	r.r += 4
	return n, nil
}

// ReadBody reads a body of n bytes; n must be within the caller's limits. The slice is valid until
// the next call of Next. One body can be read per command. If the Memory refuses the memory, the
// body is skipped and the Memory's error returned: the next command can be read.
func (r *Reader) ReadBody(n int) ([]byte, error) {
	if n > len(r.buf) && n > r.Buffered() {
		return r.readLong(n)
	}
	if err := r.need(n); err != nil {
		return nil, noEOF(err)
	}
	body := r.buf[r.r : r.r+n : r.r+n]
	r.r += n
	return body, nil
}

// readLong collects a body that does not fit the buffer in a separate buffer, which grows with the
// data.
func (r *Reader) readLong(n int) ([]byte, error) {
	r.releaseBody()
	first, err := r.newBody(min(n, bodyStep))
	if err != nil {
		return nil, r.skip(n, err)
	}
	r.body = first
	body := append(*r.body, r.buf[r.r:r.w]...)
	r.r, r.w = 0, 0
	for len(body) < n {
		if len(body) == cap(body) {
			bigger, err := r.newBody(min(n, 2*cap(body)))
			if err != nil {
				left := n - len(body)
				r.releaseBody()
				return nil, r.skip(left, err)
			}
			body = append(*bigger, body...)
			r.releaseBody()
			r.body = bigger
		}
		*r.body = body[:0]
		got, err := r.src.Read(body[len(body):min(n, cap(body))])
		body = body[:len(body)+got]
		if err != nil && len(body) < n {
			return nil, noEOF(err)
		}
	}
	return body, nil
}

// newBody returns a buffer for a body after the Memory has reserved its memory.
func (r *Reader) newBody(n int) (*[]byte, error) {
	if err := r.memory.Take(buffer.Cap(n)); err != nil {
		return nil, err
	}
	return r.buffers.Get(n), nil
}

func (r *Reader) releaseBody() {
	if r.body == nil {
		return
	}
	r.memory.Give(cap(*r.body))
	r.buffers.Put(r.body)
	r.body = nil
}

// skip reads and drops n bytes of a refused body, and returns the refusal, or why the source
// failed.
func (r *Reader) skip(n int, refusal error) error {
	for n > 0 {
		if err := r.need(1); err != nil {
			return noEOF(err)
		}
		dropped := min(n, r.Buffered())
		r.r += dropped
		n -= dropped
	}
	return refusal
}

// need reads until n bytes are buffered; n is at most maxRead.
func (r *Reader) need(n int) error {
	for r.Buffered() < n {
		r.fit(n)
		got, err := r.src.Read(r.buf[r.w:])
		r.w += got
		r.adapt(got)
		if err != nil && r.Buffered() < n {
			return err
		}
	}
	return nil
}

// fit makes space for a read that completes n bytes.
func (r *Reader) fit(n int) {
	size := max(r.want, n)
	if r.Buffered() > 0 {
		size = max(size, len(r.buf))
	}
	if size > len(r.buf) && !r.pay(size) {
		// Continue with the current buffer: n fits it, or is of a line and free of charge.
		size = max(n, len(r.buf))
		r.want = size
	}
	if size > len(r.buf) || (r.r == r.w && r.want < len(r.buf)) {
		next := r.buffers.Get(size)
		fresh := (*next)[:cap(*next)]
		r.w = copy(fresh, r.buf[r.r:r.w])
		r.r = 0
		r.buffers.Put(r.bufp)
		r.memory.Give(max(charged(len(r.buf))-charged(len(fresh)), 0))
		r.bufp, r.buf = next, fresh
		r.want = len(fresh)
		return
	}
	if r.r == r.w {
		r.r, r.w = 0, 0
		return
	}
	if len(r.buf)-r.r < n || r.w == len(r.buf) {
		r.w = copy(r.buf, r.buf[r.r:r.w])
		r.r = 0
	}
}

// charged returns the charge for a buffer of the connection.
func charged(size int) int { return max(size-freeRead, 0) }

// pay reserves the additional memory of a larger buffer of at least size bytes.
func (r *Reader) pay(size int) bool {
	more := charged(buffer.Cap(size)) - charged(len(r.buf))
	return more <= 0 || r.memory.Try(more)
}

// quietReads is the number of consecutive small reads after which a large buffer shrinks.
const quietReads = 16

// adapt chooses the size of the next buffer after a read of got bytes.
func (r *Reader) adapt(got int) {
	switch {
	case r.w == len(r.buf):
		r.want, r.quiet = min(4*len(r.buf), maxRead), 0
	case got > len(r.buf)/8 || len(r.buf) == minRead:
		r.quiet = 0
	default:
		if r.quiet++; r.quiet >= quietReads {
			r.want, r.quiet = max(len(r.buf)/4, minRead), 0
		}
	}
}

// noEOF converts the end of the source inside a command to an error.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
