// Package forward is the wire format of calls that one node makes to another on behalf of
// clients: publishes to a partition the other leads, relayed subscriptions, and requests about
// topics. The calls use peer.ClassForward; docs/format/forward.md describes the bytes.
//
// It knows the kinds of calls, their encoding, and how an error keeps its text, fate and
// identity (errors.Is) across nodes. It does not know leaders, connections, or what to do
// about an error: it is stateless.
//
// DESIGN.md numbers the invariants and says where to start.
package forward
