// Package cluster is one node's membership in its cluster: it forms or joins
// one, carries the metadata's agreement, registers each start of the node, lets
// it call the others, and decides for all of them while it is the controller.
//
// It knows the transport between nodes, the metadata's store, who the members
// are and where, and how to start, restart, grow and be removed. It refuses to
// know what calls between nodes mean, but for its own: replication and clients'
// requests are handed on as they come.
//
// Invariants:
//
//  1. Open returns only when the metadata here is at least as new as the
//     registration of this start, so nobody acts on what was true before it.
//  2. Before anything is opened, what a clean stop left as its word is taken
//     back. A node that cannot show that it stopped in order says that it did
//     not, and one whose disk was empty says so until that was accepted.
//  3. A node that does not serve yet, or no longer, is not believed to be alive
//     by the controller.
//  4. A link brings no answer to what was asked in an earlier session, and done
//     never runs inside the call that it belongs to.
//  5. Nobody but members gets anything here, formation excepted.
//
// Start at Open, then Node.Serve.
package cluster
