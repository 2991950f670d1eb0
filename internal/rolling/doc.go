// Package rolling restarts the nodes of a cluster one at a time without interrupting clients: it
// drains a node, runs the operator's restart command, and waits until every replica is in sync
// again before it continues with the next node.
//
// It decides the order, when a node may be restarted, and when it is back. It keeps no state of its
// own: after an interruption, everything it needs is in the metadata (which node is drained, down, or
// at which version) and in the audit log, where the reason of each act of a run is a [Record].
//
// Invariants:
//
//  1. At most one node is down or drained by a run, and none while another is down, drained or out of sync.
//     Of several runs that drain a node, only the one whose drain is first in the audit log restarts it.
//  2. The controller is restarted last, so that it moves only once.
//  3. A node counts as restarted once it has a newer incarnation; the next one follows when all of
//     its replicas are in sync.
//  4. A run that stops reports the node it was at, what it did to that node, and the remaining nodes.
//
// Start reading at [Run]; [Fit] says when a node may go.
package rolling
