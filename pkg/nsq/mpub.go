package nsq

import "encoding/binary"

// mpubHeader is the length of an MPUB body's message count, and of each
// message's size:
//
//	+----------+-----------------------------+
//	| count: 4 | count x ( size: 4 | body )  |
//	+----------+-----------------------------+
const mpubHeader = 4

// SplitMPUB takes the body of an MPUB apart and calls emit for each message, in
// order and without copying: the slices alias body. What was emitted before an
// error must not be used. Sizes inside must add up to the size of the body.
// maxMessage is the limit of one message's size; the error, if any, is an
// *Error.
func SplitMPUB(body []byte, maxMessage int, emit func(message []byte)) error {
	if len(body) < mpubHeader {
		return Errorf(BadBody, "MPUB failed to read message count")
	}
	count := int32(binary.BigEndian.Uint32(body))
	// Each message takes its size at least: an empty one is refused by its number.
	if most := (len(body) - mpubHeader) / mpubHeader; count <= 0 || int(count) > most {
		return Errorf(BadBody, "MPUB invalid message count %d", count)
	}
	rest := body[mpubHeader:]
	for i := range int(count) {
		if len(rest) < mpubHeader {
			return Errorf(BadMessage, "MPUB failed to read message(%d) body size", i)
		}
		size := int32(binary.BigEndian.Uint32(rest))
		rest = rest[mpubHeader:]
		switch {
		case size <= 0:
			return Errorf(BadMessage, "MPUB invalid message(%d) body size %d", i, size)
		case int(size) > maxMessage:
			return Errorf(BadMessage, "MPUB message too big %d > %d", size, maxMessage)
		case int(size) > len(rest):
			return Errorf(BadBody, "MPUB message(%d) is longer than the body", i)
		}
		emit(rest[:size:size])
		rest = rest[size:]
	}
	if len(rest) > 0 {
		return Errorf(BadBody, "MPUB body has %d bytes after its last message", len(rest))
	}
	return nil
}
