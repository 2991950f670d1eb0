package peer

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

func TestLargeFramesShareMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := &frameMemory{max: 3 * largeChunk}
		var pool chunkPool
		big := encode(1, 0, 1, string(make([]byte, 2*largeChunk)))
		read := func() (*frameReader, *io.PipeWriter, chan error) {
			r, w := io.Pipe()
			f := newFrameReader(r, 16<<20, &pool, memory, 3*time.Second)
			done := make(chan error, 1)
			go func() {
				_, err := f.next()
				done <- err
			}()
			return f, w, done
		}
		first, w, held := read()
		w.Write(big[:len(big)-1])
		second, w2, waiting := read()
		go w2.Write(big)
		third, w3, small := read()
		w3.Write(encode(1, 0, 1, string(make([]byte, largeChunk/2))))
		synctest.Wait()
		if err := <-small; err != nil {
			t.Errorf("a smaller frame waits: %v", err)
		}
		began := time.Now()
		if err := <-waiting; !errors.Is(err, errFrameMemory) || time.Since(began) != 3*time.Second {
			t.Errorf("a large one beside a large one: %v after %v", err, time.Since(began))
		}
		w2.CloseWithError(io.EOF)
		w.Write(big[len(big)-1:])
		if err := <-held; err != nil {
			t.Errorf("the first one: %v", err)
		}
		go w.Write(encode(1, 0, 2, ""))
		if _, err := first.next(); err != nil {
			t.Error(err)
		}
		if memory.used != 0 || len(first.chunk.data) > largeChunk {
			t.Errorf("%d bytes are taken, and the connection keeps %d, after the frame", memory.used, len(first.chunk.data))
		}
		for _, f := range []*frameReader{first, second, third} {
			f.close()
		}
	})
}

func TestSingleLargeFrameAlwaysGetsMemory(t *testing.T) {
	memory := &frameMemory{max: 1}
	f := newFrameReader(bytes.NewReader(encode(1, 0, 1, string(make([]byte, 3*largeChunk)))), 16<<20, new(chunkPool), memory, time.Minute)
	if fr, err := f.next(); err != nil || len(fr.payload) != 3*largeChunk {
		t.Errorf("read %v", err)
	}
	f.close()
	if memory.used != 0 {
		t.Errorf("%d bytes are left", memory.used)
	}
}
