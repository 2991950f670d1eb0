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
// Invariants:
//
//  1. One slow node never delays an answer: nodes that do not respond within two seconds are
//     omitted and named.
//  2. A request to a leader follows the leadership when it moves.
//  3. An action that loses data or availability requires force and is logged.
//  4. A node that waits for its cluster answers from its disk, through Outlook.
//
// Start at Node, question and atLeader in node.go.
package operate
