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
//  1. Whatever is decoded from bytes of another node either is what that node
//     encoded or is ErrMalformed; nothing panics.
//  2. No memory is taken on the word of a length or a count: what is decoded is
//     bounded by a small multiple of the bytes that are there.
//  3. Decoded values point into the payload that they were decoded from.
//
// Start at Caller, then publish.go for the publishes of a round.
package forward
