// Package peer carries calls between the nodes of a cluster: one port, one connection per pair
// of nodes and traffic class, pipelined calls in checksummed frames, and optional mutual TLS.
//
// It knows node names, classes, handshakes, frames, calls and connection liveness. It does not
// know what a call means, who is a member (Options.Admit decides), or the consequences of a
// node failure (Options.OnEvent is called).
//
// Invariants:
//
//  1. Calls of one Peer arrive in the order in which they were made, and the
//     Handler sees the calls of one session one at a time.
//  2. done is called exactly once per call. A call without a response reports whether it may
//     have been carried out: errors marked fate.Refused were not sent, ErrDisconnected may have
//     been.
//  3. OnUp and OnDown of a Peer alternate. When OnDown is called, done has been called for
//     every call of that session.
//  4. A slow or dead peer does not affect others: every connection has its own reader and
//     writer, every queue is bounded, every network wait has a deadline.
//  5. An announced length allocates no memory: buffers grow with the bytes received.
//
// docs/format/peer.md describes the bytes.
//
// Start at Transport and Peer.Go.
package peer
