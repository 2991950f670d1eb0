// Package formation forms a cluster from nodes started with the same command line, and lets
// nodes join an existing one. First start, restart and growth are one code path.
//
// It knows which nodes respond at the join addresses, which node may bootstrap a cluster, who
// votes, and which node must be refused. It does not know the transport, the content of the
// metadata, or who leads which partition.
//
// Decisions are pure: next for a node without a cluster, promises for the promises it has
// given, admit for the leader. Node is the shell around them.
//
// Invariants:
//
//  1. A node without state bootstraps a cluster only after as many nodes as expected, itself
//     included, have promised themselves to it. A node is promised to at most one bootstrap
//     node as long as it runs, so two groups of nodes with a common member never form two
//     clusters.
//  2. A node without state neither votes nor stores metadata before the leader has made it a
//     member. If it was a voter that lost its state, its old vote is removed first.
//  3. If the cluster requires join tokens, a node without state becomes a member only with a valid
//     one for its id, and one process uses each token.
//  4. Nodes of different clusters exchange nothing but a refusal.
//
// Start at next, promises and admit, then Node.Run.
package formation
