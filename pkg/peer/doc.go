// Package peer carries calls between the nodes of a cluster: one port, a
// connection for each pair of nodes and class of traffic, pipelined calls in
// checksummed frames, mutual TLS where it is configured.
//
// It knows node names, classes, hellos, frames, calls, and when a connection
// lives. It refuses to know what a call means, who is a member (Options.Admit
// is asked) and what the failure of a node entails (Options.OnEvent is told).
//
// Invariants:
//
//  1. Calls of one Peer arrive in the order in which they were made, and the
//     Handler sees the calls of one session one after the other.
//  2. done is called exactly once for every call. A call that ends without an
//     answer says whether it can have been carried out: errors marked
//     fate.Refused were not sent, ErrDisconnected may have been.
//  3. OnUp and OnDown of a Peer alternate. When OnDown is called, every call
//     that was sent in that session has had its done.
//  4. A slow or dead peer holds up nobody else: every connection has its own
//     reader and writer, everything that waits is bounded, every wait for the
//     network has a deadline.
//  5. No memory is taken on the word of a length: buffers grow with what has
//     arrived.
//
// docs/format/peer.md draws the bytes.
//
// Start at Transport and Peer.Go.
package peer
