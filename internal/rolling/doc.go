// Package rolling restarts the nodes of a cluster one after the other, so that clients notice nothing: a node is
// drained, a command of the operator restarts it, and the next one waits until everything is in sync again.
//
// It decides the order, when a node may go, and when it is back. It keeps no state of its own: what it has to
// know after an interruption (who is drained, who runs which version, who is down) is in the metadata.
//
// Invariants:
//
//  1. At most one node is away or drained by a run, and none while another is away, drained or out of sync.
//  2. The controller goes last, so that it changes once.
//  3. A node counts as restarted when it has a newer incarnation, and the next one goes when each of its
//     replicas is in sync.
//  4. A run that stops says which node it was at, what it did to it, and which nodes are left.
//
// Start reading at [Run]; [Fit] says when a node may go.
package rolling
