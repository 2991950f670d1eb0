package commitlog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/brokerd/brokerd/pkg/seq"
)

// digestStep is how many bytes of a log are read at a time.
const digestStep = 1 << 20

// errWhole ends the reading for a digest.
var errWhole = errors.New("log fully read")

// Digest returns the SHA-256 of the log's batches on disk, from the one that contains the offset at which the checker
// starts to the last that ends at or before end, in hexadecimal. It fails if a message between them is missing.
func (c *Checker) Digest(ctx context.Context, end seq.Offset) (string, error) {
	h := sha256.New()
	from := c.next
	next := from
	for {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		_, done, err := c.Step(digestStep, func(b Batch) error {
			switch {
			case b.First() > next && next < end:
				return missing(next, min(b.First(), end))
			case b.End() > end:
				return errWhole
			case b.End() > from:
				h.Write(b.Raw())
				next = b.End()
			}
			return nil
		})
		switch {
		case err == nil && done && next < end:
			return "", missing(next, end)
		case errors.Is(err, errWhole), err == nil && done:
			return hex.EncodeToString(h.Sum(nil)), nil
		case err != nil:
			return "", err
		}
	}
}

// missing is the error for messages that a log should have. They may have been deleted by its retention meanwhile.
func missing(from, to seq.Offset) error {
	return fmt.Errorf("the log has no messages from offset %d to %d", from, to-1)
}
