// Package controller decides what the cluster does next: which nodes are alive, who leads which
// partition, which replicas move, and when leadership returns to the preferred replicas. It
// runs on the metadata leader.
//
// Its inputs are the metadata (an immutable [meta.State]), the results of probes, and the time.
// It does not know how probes travel, how commands are agreed on, or what a log holds: every
// decision is a pure function of its arguments. [Loop] is the only part with goroutines and a
// clock, and it decides nothing.
//
// Invariants, which the tests check on random clusters:
//
//  1. Only a member of the in-sync set is elected. Electing any other replica is an operator's
//     command and is not issued here.
//  2. Pending work is derived from the metadata each time and stored nowhere else. A new
//     controller continues where the last one stopped; a command that was refused, or whose
//     response was lost, is decided again.
//  3. The same metadata, observations and time yield the same commands in the same order.
//     Deciding twice is harmless: each command carries the partition version, or the node
//     incarnation, that it is based on.
//  4. A controller that is new, or was paused, forgets all earlier observations.
//  5. A replica is removed from a partition only after its replacements are in sync.
//
// Start at Loop, then the decisions that it calls.
package controller
