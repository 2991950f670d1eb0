// Package topic gives meaning to one replica's log: its records are messages,
// channels are cursors over them. A Partition is what a node serves while it
// leads: it takes publishes, hands messages to consumers, and keeps the
// channels' positions. It knows the log and the channels' state; it does not
// know the network, the metadata, or who else holds a replica.
//
// While a node follows, a Standby keeps the positions that the leader tells it.
// While it leads, a Partition tells them to the others: as snapshots now and
// then, and each finished message of an ordered channel at once, before it
// counts.
//
// Invariants:
//
//   - An ordered channel does not go on before every in-sync replica knows that
//     the message before is finished, whichever leader was told so.
//   - What a replica was told is not undone by a snapshot that was made before.
//   - Only an operator can move a channel backwards.
//   - After Close, a Partition or Standby writes nothing.
//
// Locks: each Channel's mutex guards that channel's state and is never held
// over the disk or a call to others, except for the question whether there are
// other replicas. A Partition's mutex guards the set of its channels.
package topic
