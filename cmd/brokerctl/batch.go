package main

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

// Limits of a batch of lines.
const (
	maxBatchBytes = 1 << 20
	maxLineBytes  = 16 << 20
	batchLinger   = 100 * time.Millisecond
)

// batchLimits defines when a batch is sent.
type batchLimits struct {
	messages int
	bytes    int
	linger   time.Duration // maximum wait for another message
}

// batch holds messages that are sent together.
type batch struct {
	bodies [][]byte
	bytes  int
}

func (b *batch) empty() bool { return len(b.bodies) == 0 }

// wouldExceed reports whether the batch must be sent before a message of n bytes is added. An
// empty batch accepts any message.
func (b *batch) wouldExceed(l batchLimits, n int) bool {
	return !b.empty() && (len(b.bodies) >= l.messages || b.bytes+n > l.bytes)
}

// add adds a message. The batch owns it.
func (b *batch) add(body []byte) {
	b.bodies = append(b.bodies, body)
	b.bytes += len(body)
}

// popAll returns the messages of the batch and empties it.
func (b *batch) popAll() [][]byte {
	bodies := b.bodies
	*b = batch{}
	return bodies
}

// line is a line of a stream, or the reason why there are no more.
type line struct {
	text []byte
	err  error
}

// readLines reads the non-empty lines of a stream, without their ends, on a separate goroutine,
// until the stream or the context ends. The last item is an error, io.EOF on success. A blocked
// read keeps the goroutine until the program exits.
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
