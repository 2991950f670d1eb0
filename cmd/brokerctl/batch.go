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

// What a batch of lines is bounded by.
const (
	maxBatchBytes = 1 << 20
	maxLineBytes  = 16 << 20
	batchLinger   = 100 * time.Millisecond
)

// batchLimits says when a batch is sent.
type batchLimits struct {
	messages int
	bytes    int
	linger   time.Duration // it waits so long for a further message
}

// batch is messages that are to be sent together.
type batch struct {
	bodies [][]byte
	bytes  int
}

func (b *batch) empty() bool { return len(b.bodies) == 0 }

// wouldExceed reports whether the batch is to be sent before a message of n bytes
// is added. An empty batch takes any message.
func (b *batch) wouldExceed(l batchLimits, n int) bool {
	return !b.empty() && (len(b.bodies) >= l.messages || b.bytes+n > l.bytes)
}

// add adds a message, which the batch then owns.
func (b *batch) add(body []byte) {
	b.bodies = append(b.bodies, body)
	b.bytes += len(body)
}

// popAll returns what is in the batch and leaves it empty.
func (b *batch) popAll() [][]byte {
	bodies := b.bodies
	*b = batch{}
	return bodies
}

// line is a line of a stream, or the reason that there are no more.
type line struct {
	text []byte
	err  error
}

// readLines reads lines on a goroutine of its own, without their ends and
// leaving out empty ones, until the stream or the context ends. The last thing
// that it hands over is an error, io.EOF where all is well. A read that blocks
// keeps the goroutine until the program ends.
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
