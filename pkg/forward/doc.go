// Package forward is the wire format of calls that one node makes to another on behalf of
// clients: publishes to a partition the other leads, relayed subscriptions, and requests about
// topics. The calls use peer.ClassForward; docs/format/forward.md describes the bytes.
//
// It knows the kinds of calls, their encoding, and how an error keeps its text, fate and
// identity (errors.Is) across nodes. It does not know who leads or who is connected, nor what
// to do about an error: it is stateless.
//
// Invariants:
//
//  1. Decoding bytes of another node yields either what that node encoded or errMalformed; it
//     never panics.
//  2. Announced lengths and counts never allocate memory: decoded data is bounded by a small
//     multiple of the bytes received.
//  3. Decoded values alias the payload.
//
// Start at Caller, then publish.go for the publishes of a round.
package forward
