package batching

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// ReadLine reads a line without its end. whole reports whether the line had an end.
func ReadLine(r *bufio.Reader, longest int) (line []byte, whole bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > longest:
			return nil, false, fmt.Errorf("longer than %d bytes", longest)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF):
			return trimLine(line), false, nil
		case err != nil:
			return nil, false, err
		}
		return trimLine(line), true, nil
	}
}

// trimLine removes the line end.
func trimLine(line []byte) []byte { return bytes.TrimRight(line, "\r\n") }
