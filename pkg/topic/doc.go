// Package topic gives meaning to one replica's log: its records are messages,
// channels are cursors over them. A Partition is what a node serves while it
// leads: it takes publishes, hands messages to consumers, and keeps the
// channels' positions. It knows the log and the channels' state; it does not
// know the network, the metadata, or who else holds a replica.
//
// Locks: each Channel's mutex guards that channel's state and is never held
// over the disk or another lock. A Partition's mutex guards the set of its
// channels.
package topic
