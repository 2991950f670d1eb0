// Package peer carries calls between the nodes of a cluster: one port, one connection per pair
// of nodes and traffic class, pipelined calls in checksummed frames, and optional mutual TLS.
//
// It knows node names, classes, handshakes, frames, calls and connection liveness. It does not
// know what a call means, who is a member (Options.Admit decides), or the consequences of a
// node failure (Options.OnEvent is called).
//
// DESIGN.md numbers the invariants and says where to start.
package peer
