// Package formation makes a cluster of nodes that were started with the same
// command line, and lets nodes join one that there is. First start, restart and
// growth are one path.
//
// It knows who answers at the addresses it was given, who may found a cluster,
// who votes in it, and which node must be refused. It refuses to know how a
// request reaches another node, what the metadata says, and who leads which
// partition.
//
// Decisions are values: next for a node that has no cluster, promises for what
// it has given its word on, admit for the leader. Node is the shell around them.
//
// Invariants:
//
//  1. A node without state founds a cluster only after as many nodes as are
//     expected, itself included, are bound to it, and a node is bound to at most
//     one founder for as long as it lives. So two groups of nodes that have one
//     in common never found two clusters.
//  2. A node without state takes no part in the agreement, and so can give no
//     vote, before the cluster's leader has made it a member: where it was a
//     voter that lost its state, after that vote was taken away.
//  3. Nodes of different clusters never exchange more than their refusal.
//
// Start at next, promises and admit, then Node.Run.
package formation
