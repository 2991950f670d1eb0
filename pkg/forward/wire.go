package forward

import (
	"encoding/binary"
	"errors"

	"github.com/brokerd/brokerd/internal/fields"
	"github.com/brokerd/brokerd/pkg/fate"
)

// errMalformed is returned for bytes that cannot be decoded. The call had no effect.
var errMalformed = fate.Mark(errors.New("malformed cluster call"), fate.Refused)

func appendString(p []byte, s string) []byte {
	return append(binary.AppendUvarint(p, uint64(len(s))), s...)
}

func appendBytes(p, b []byte) []byte {
	return append(binary.AppendUvarint(p, uint64(len(b))), b...)
}

// reader decodes a payload.
type reader struct{ fields.Reader }

func read(payload []byte) reader { return reader{fields.Reader{Rest: payload}} }
