// Package batching gathers messages, such as the lines of a stream, into batches that are sent together.
package batching

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/brokerd/brokerd/internal/words"
)

// Bounds of a batch of lines.
const (
	MaxBytes     = 1 << 20 // of a batch with more than one message
	Linger       = 100 * time.Millisecond
	maxLineBytes = 16 << 20
)

// Limits says when a batch is sent.
type Limits struct {
	Messages int
	Bytes    int
	Linger   time.Duration // how long it waits for a further message
}

// Batch is messages that are to be sent together.
type Batch struct {
	bodies [][]byte
	bytes  int
}

func (b *Batch) empty() bool { return len(b.bodies) == 0 }

// Exceeds reports whether the batch is to be sent before a message of n bytes
// is added. An empty batch takes any message.
func (b *Batch) Exceeds(l Limits, n int) bool {
	return !b.empty() && (len(b.bodies) >= l.Messages || b.bytes+n > l.Bytes)
}

// Add adds a message, which the batch then owns.
func (b *Batch) Add(body []byte) {
	b.bodies = append(b.bodies, body)
	b.bytes += len(body)
}

// Take returns what is in the batch and leaves it empty.
func (b *Batch) Take() [][]byte {
	bodies := b.bodies
	*b = Batch{}
	return bodies
}

// line is a line of a stream, or the reason that there are no more.
type line struct {
	text []byte
	err  error
}

// readLines reads lines on its own goroutine, without line ends and without empty lines, until the
// stream or the context ends. The last value that it passes on is an error, io.EOF if all is well.
// A read that blocks keeps the goroutine until the program ends.
func readLines(ctx context.Context, from io.Reader) <-chan line {
	const ahead = 1024
	lines := make(chan line, ahead)
	hand := func(l line) bool {
		select {
		case lines <- l:
			return true
		case <-ctx.Done():
			return false
		}
	}
	go func() {
		scanner := bufio.NewScanner(from)
		scanner.Buffer(nil, maxLineBytes)
		for scanner.Scan() {
			if len(scanner.Bytes()) > 0 && !hand(line{text: bytes.Clone(scanner.Bytes())}) {
				return
			}
		}
		err := scanner.Err()
		switch {
		case err == nil:
			err = io.EOF
		case errors.Is(err, bufio.ErrTooLong):
			err = fmt.Errorf("line longer than %s", words.Size(maxLineBytes))
		}
		hand(line{err: err})
	}()
	return lines
}

// SendLines calls send with batches of the non-empty lines of a stream: a batch is sent once it is
// full, or when no further line has arrived for a while. It returns when the stream or ctx ends, or
// with the first error of send.
func SendLines(ctx context.Context, from io.Reader, limits Limits, send func([][]byte) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := readLines(ctx, from)
	idle := time.NewTimer(limits.Linger)
	defer idle.Stop()
	var b Batch
	flush := func() error {
		if b.empty() {
			return nil
		}
		return send(b.Take())
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-idle.C:
			if err := flush(); err != nil {
				return err
			}
		case l := <-lines:
			if errors.Is(l.err, io.EOF) {
				return flush()
			}
			if l.err != nil {
				return l.err
			}
			if b.Exceeds(limits, len(l.text)) {
				if err := flush(); err != nil {
					return err
				}
			}
			b.Add(l.text)
			idle.Reset(limits.Linger)
		}
	}
}
