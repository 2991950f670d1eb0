// Package replication copies a partition's batches from its leader to the other replicas: the
// wire messages, the follower's side, and the leader's view of one follower. Catching up and
// keeping up are one code path. It knows the log; it does not know the network, who leads, or
// the content of records.
//
// DESIGN.md numbers the invariants and says where to start.
package replication
