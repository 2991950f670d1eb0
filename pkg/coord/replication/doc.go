// Package replication moves a partition's batches from its leader to its other
// replicas: the messages of the two, the follower's side, and the leader's view
// of one follower. Catching up and keeping up are one path. It knows the log;
// it does not know the network, who leads what, or what a record means.
//
// Rules that it keeps (docs/replication.md says why):
//
//  1. A follower answers nothing to a leader of an epoch below the highest that
//     it has adopted, and has stored an epoch before it answers in it.
//  2. A follower appends only what continues its log exactly: the batch before
//     must have the same offset, epoch and checksum. A batch that it has already
//     is answered with success only if it is the same.
//  3. Where logs differ, the follower is cut back to where their epochs and
//     checksums agree, never below its committed end.
//  4. A leader believes nothing of a follower from one session to the next.
//
// Start at Follower.Handle, then Replicator.
package replication
