package wire

import (
	"encoding/binary"
	"errors"
	"hash/crc64"
	"math/rand/v2"

	"github.com/brokerd/brokerd/test/audit"
)

// A body is: run (8), producer (4), number (4), then random bytes. The run distinguishes the
// messages of this run from others.
const bodyHeader = 16

// maxPadding is the most random bytes in a body.
const maxPadding = 2000

// Sum identifies a body by its contents.
func Sum(body []byte) uint64 { return crc64.Checksum(body, crc64.MakeTable(crc64.ECMA)) }

// MakeBody returns the body of a message.
func MakeBody(rng *rand.Rand, run uint64, k audit.Key) []byte {
	b := make([]byte, bodyHeader+rng.IntN(maxPadding))
	binary.BigEndian.PutUint64(b, run)
	binary.BigEndian.PutUint32(b[8:], uint32(k.Producer))
	binary.BigEndian.PutUint32(b[12:], uint32(k.Seq))
	for i := bodyHeader; i < len(b); i++ {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// ParseBody returns the key in a body.
func ParseBody(body []byte, run uint64) (audit.Key, error) {
	if len(body) < bodyHeader || binary.BigEndian.Uint64(body) != run {
		return audit.Key{}, errors.New("not a body of this run")
	}
	return audit.Key{
		Producer: int(binary.BigEndian.Uint32(body[8:])),
		Seq:      int(binary.BigEndian.Uint32(body[12:])),
	}, nil
}
