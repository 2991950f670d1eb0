// Package controller decides what the cluster does next: which nodes are alive, who leads which
// partition, which replicas move, and when leadership returns to the preferred replicas. It
// runs on the metadata leader.
//
// Its inputs are the metadata (an immutable [meta.State]), the results of probes, and the time. It
// does not know how probes travel, how commands are committed, or what a log holds: every decision
// is a pure function of its arguments. [Loop] is the only part with goroutines and a clock, and it
// decides nothing.
//
// DESIGN.md numbers the invariants and says where to start.
package controller
