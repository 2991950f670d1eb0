// Package operate answers operators' requests on any node and carries out their actions: on
// nodes, partitions and metadata (Operator), on topics, channels, messages and copies
// (Contents), and on one node (Node).
//
// It decides which nodes to ask, how to merge their answers, and which actions to refuse
// because they would cost availability or data. Target states are decided by
// pkg/cluster/controller, replicas are handled by pkg/host.
//
// Each question to a node is declared once, in a variable ask…, with its wire types and the
// code that answers it; a node asks itself the same way.
//
// DESIGN.md numbers the invariants and says where to start.
package operate
