// Package model is an executable model of the replication protocol, and an exhaustive search of
// its states within bounds. It shows that the rules of docs/replication.md are sufficient and
// necessary: with all of them no invariant is violated, and without any one of them some
// history violates one.
//
// The model covers one partition with three replicas: metadata as a sequence of versions that
// every node applies in order at its own pace; elections, and ISR changes proposed by nodes
// that may be gone when they are decided; terms; pushes and acknowledgements that are lost,
// delayed, duplicated and reordered; log comparison and truncation; commits and their
// propagation to followers; kills, after which a node applies the metadata from its first
// version again; power failures, which lose unsynced data (sync=always) or any part of a log
// (sync=interval); lost disks and directories; one log that loses its end or reverts to an
// older state; an ordered channel's position, replicated as snapshots and changes that may be
// dropped, journaled and stored; and the lease under which a leader delivers, with time in
// units of whole leases.
//
// It also covers a wrong controller: any ISR member may be elected or removed at any time,
// alive or not.
//
// Not covered, and tested elsewhere: that the metadata is one sequence (Raft), retention and log
// starts, batches of more than one record, damage to more than one replica or inside a log,
// replicas copied again because their log cannot be compared, operator elections, more than one
// partition, deleted topics, unordered channels, publishers that retry, and liveness: the model
// checks safety, not progress. If the only ISR member loses unsynced data, the model takes the
// partition offline; that the broker continues with the rest is modelled for a single replica only.
//
// Checksums are assumed to distinguish different contents. States are identified by a 64-bit
// hash: a search of n states misses one with a probability below n*n/2^65, one in a million for
// eight million states, and differently in every process. Replicas are interchangeable, so
// states that differ only in replica names count as one.
//
// The package imports none of the code it models, and nothing imports it.
package model
