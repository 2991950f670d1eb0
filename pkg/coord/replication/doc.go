// Package replication copies a partition's batches from its leader to the other replicas: the
// wire messages, the follower's side, and the leader's view of one follower. Catching up and
// keeping up are one code path. It knows the log; it does not know the network, who leads, or
// the content of records.
//
// Invariants (explained in docs/replication.md):
//
//  1. A follower does not serve a leader of an epoch below the highest it has adopted, and
//     stores an epoch before it responds in it.
//  2. A follower appends only what continues its log exactly: the previous batch must have the
//     same offset, epoch and checksum. A batch that it already has is acknowledged only if it
//     is identical.
//  3. Where logs diverge, the follower is truncated to the point where epochs and checksums
//     agree, never below its committed end.
//  4. A leader carries no assumption about a follower from one session to the next.
//
// Start at Follower.Handle, then Replicator.
package replication
