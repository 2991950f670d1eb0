// Package cluster is a node's membership in its cluster: it forms or joins one, runs the
// metadata's Raft node, registers each start of the node, connects it to the others, and runs
// the controller while this node is the metadata leader.
//
// It knows the transport, the metadata store, the members and their addresses, and how nodes
// start, restart, are added and are removed. It does not interpret calls other than its own:
// replication and client requests are passed on.
//
// Invariants:
//
//  1. Open returns only when the local metadata is at least as new as the registration of this
//     start, so that nothing acts on older state.
//  2. Before anything is opened, the mark of a clean stop is removed. A node without that mark
//     reports an unclean stop, and a node with an empty disk reports that until the report is
//     accepted.
//  3. The controller does not consider a node alive unless it is serving.
//  4. A link never delivers a response to a call of an earlier session, and never calls done
//     inside the call itself.
//  5. Only members are served, except for formation calls.
//
// Start at Open, then Node.Serve.
package cluster
