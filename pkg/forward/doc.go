// Package forward is the wire of what one node asks of another on behalf of
// clients: publishes for a partition that the other leads, subscriptions that
// are relayed, and requests about topics. The calls themselves are
// peer.ClassForward's; docs/format/forward.md draws their bytes.
//
// It knows the kinds of calls, how each is spelled, and how an error travels so
// that its text, its fate and what errors.Is finds in it survive. It refuses to
// know who leads, who is connected, and what to do about an error: it holds no
// state.
//
// Invariants:
//
//   - Whatever is decoded from bytes of another node either is what that node
//     encoded or is ErrMalformed; nothing panics.
//   - No memory is taken on the word of a length or a count: what is decoded is
//     bounded by a small multiple of the bytes that are there.
//   - Decoded values point into the payload that they were decoded from.
package forward
