// Package model is the protocol of replication as an executable model, and a
// search that goes through everything it can do within bounds. It is where the
// rules of docs/replication.md are proved to be enough and to be needed: with
// all of them no invariant is ever broken, and for each of them there is a
// history that breaks one as soon as it is dropped.
//
// Modelled is one partition with three replicas: its metadata as a sequence of
// versions that every node applies in order and in its own time; elections, and
// changes of the ISR as proposals that may be decided long after their proposer
// is gone; terms; pushes and acknowledgements that are lost, delayed, repeated
// and overtaken; comparing and cutting logs; committing, and telling followers
// so; kills, after which a node applies the metadata from its first version
// again; power cuts, which take what was not synced (sync=always) or any part
// of a log (sync=interval); disks and directories that are lost; one log that loses
// its end, or goes back to an older state; an ordered channel's position, told as
// snapshots and changes, which may be dropped on their way, noted and stored; and
// the lease under which a leader delivers, with time that passes in whole leases.
//
// A controller that errs is modelled, too: anyone in the ISR may be elected or
// taken out at any time, alive or not.
//
// Not modelled, and to be tested elsewhere: that the metadata is itself one
// sequence (Raft), retention and the start of a log, batches of more than one
// record, damage to more than one replica or inside a log, replicas that are copied
// anew because their log cannot be compared, an operator's elections, more than one
// partition, topics that are deleted, unordered channels, publishers that retry, and whether anything
// happens at all: the model knows safety and not progress. Where the only member
// of an ISR loses what was not synced, the partition goes offline in the model;
// that the broker goes on with the rest is modelled with one copy alone.
//
// A checksum is taken to tell different contents apart. States are told apart
// by 64 bits of hash: a search of n states misses one with a probability below
// n*n/2^65, a millionth for eight million, and differently in every process. Replicas
// are interchangeable, so states that differ in their names are one.
//
// The package knows nothing of the code that it is a model of, and nothing
// imports it.
package model
