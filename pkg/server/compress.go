package server

import (
	"io"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/flate"

	"github.com/brokerd/brokerd/internal/buffer"
)

// gathering keeps what a compressor writes in pieces until it is sent in one. Some clients, such as
// pynsq, take each read for whole blocks, and fail on a piece from which nothing can be
// decompressed.
type gathering struct {
	to      io.Writer
	buffers *buffer.Pool
	buf     *[]byte // borrowed; nil: nothing is kept
}

// Write keeps a copy of data.
func (g *gathering) Write(data []byte) (int, error) {
	if g.buf == nil {
		g.buf = g.buffers.Get(len(data))
	}
	*g.buf = append(*g.buf, data...)
	return len(data), nil
}

// send writes the kept data.
func (g *gathering) send() error {
	if g.buf == nil {
		return nil
	}
	_, err := g.to.Write(*g.buf)
	g.buffers.Put(g.buf)
	g.buf = nil
	return err
}

// compressor is a writer whose data reach the stream when it is flushed.
type compressor interface {
	io.Writer
	Flush() error
}

// compressed returns a compressor around a stream, and a function that flushes it with one write.
func compressed(to io.Writer, buffers *buffer.Pool, around func(io.Writer) (compressor, error)) (compressor, func() error, error) {
	g := &gathering{to: to, buffers: buffers}
	c, err := around(g)
	if err != nil {
		return nil, nil, err
	}
	return c, func() error {
		if err := c.Flush(); err != nil {
			return err
		}
		return g.send()
	}, nil
}

// turnBytes is how many bytes are decompressed in one turn.
const turnBytes = 32 << 10

// inTurns decompresses in turns. The connection gives up its turn while it waits for input.
type inTurns struct {
	from io.Reader
	conn *meteredConn
}

// Read implements io.Reader.
func (r inTurns) Read(p []byte) (int, error) {
	r.conn.turns.Acquire()
	r.conn.taken = true
	defer func() {
		r.conn.taken = false
		r.conn.turns.Give()
	}()
	return r.from.Read(p[:min(len(p), turnBytes)])
}

func snappyAround(to io.Writer) (compressor, error) { return snappy.NewBufferedWriter(to), nil }

func deflateAround(level int) func(io.Writer) (compressor, error) {
	return func(to io.Writer) (compressor, error) { return flate.NewWriter(to, level) }
}
