// Package topic gives meaning to a replica's log: its records are messages, and channels are
// cursors over them. A Partition serves a led replica: it accepts publishes, delivers messages
// to consumers and maintains the channels' positions. It knows the log and the channels' state;
// it does not know the network, the metadata, or other replicas.
//
// On a follower, a Standby stores the positions received from the leader. On the leader, the
// Partition sends them: periodic snapshots, and each message finished by an ordered channel
// immediately, before the finish counts.
//
// DESIGN.md numbers the invariants and says where to start.
package topic
