// Package topic gives meaning to a replica's log: its records are messages, and channels are
// cursors over them. A Partition serves a led replica: it accepts publishes, delivers messages
// to consumers and maintains the channels' positions. It knows the log and the channels' state;
// it does not know the network, the metadata, or other replicas.
//
// On a follower, a Standby stores the positions received from the leader. On the leader, the
// Partition sends them: periodic snapshots, and each message finished by an ordered channel
// immediately, before the finish counts.
//
// Invariants:
//
//   - An ordered channel delivers the next message only after every in-sync replica knows that
//     the previous one is finished, whichever leader received the FIN.
//   - A snapshot never undoes a newer change on a replica.
//   - Only an operator can move a channel backwards.
//   - After Close, a Partition or Standby writes nothing.
//
// Locks: each Channel's mutex guards that channel's state and is never held during disk access
// or calls to other components, except for the question whether there are other replicas. A
// Partition's mutex guards the set of its channels.
package topic
