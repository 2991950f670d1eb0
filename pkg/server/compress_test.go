package server

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/flate"

	"github.com/brokerd/brokerd/internal/buffer"
)

// writes counts the writes to a buffer.
type writes struct {
	bytes.Buffer
	n int
}

func (w *writes) Write(data []byte) (int, error) {
	w.n++
	return w.Buffer.Write(data)
}

// Flushed data is sent in one write, whatever its size and however well it compresses.
func TestCompressorWritesOncePerFlush(t *testing.T) {
	noise := make([]byte, 300<<10)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	for name, c := range map[string]struct {
		around func(io.Writer) (compressor, error)
		plain  func(io.Reader) io.Reader
	}{
		"snappy":    {snappyAround, func(r io.Reader) io.Reader { return snappy.NewReader(r) }},
		"deflate 1": {deflateAround(1), func(r io.Reader) io.Reader { return flate.NewReader(r) }},
		"deflate 6": {deflateAround(6), func(r io.Reader) io.Reader { return flate.NewReader(r) }},
	} {
		t.Run(name, func(t *testing.T) {
			var to writes
			w, flush, err := compressed(&to, new(buffer.Pool), c.around)
			if err != nil {
				t.Fatal(err)
			}
			plain := c.plain(&to)
			for i, data := range [][]byte{[]byte("OK"), noise, bytes.Repeat([]byte("x"), 1<<20), noise[:1000], []byte("end")} {
				to.n = 0
				if _, err := w.Write(data); err != nil {
					t.Fatal(err)
				}
				if err := flush(); err != nil || to.n != 1 {
					t.Errorf("flush %d: %d writes, %v", i, to.n, err)
				}
				got := make([]byte, len(data))
				if _, err := io.ReadFull(plain, got); err != nil || !bytes.Equal(got, data) {
					t.Fatalf("flush %d: %d bytes differ: %v", i, len(data), err)
				}
			}
		})
	}
}
