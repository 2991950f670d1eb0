// Package broker is one node wired together: the metadata, the replicas that
// this node holds, the partitions it leads, and their consumers. It routes a
// request to the partition that it is for, here or at another node, and makes
// what the node holds match what the metadata says. It knows neither the wire nor
// HTTP, and not how nodes reach each other.
//
// Metadata says what should be; converge makes it so. First start, restart,
// fail-over, hand-over and deletion are one path: a replica leads, is on standby,
// or goes. What is held of a topic is changed in its lane, a replica in its own; many
// topics change at a time. Requests never wait for the metadata unless they
// change it: they look up what is held in maps that converge maintains.
//
// Invariants:
//
//   - A replica takes a role only by metadata that is at least as new as the
//     announcement of this start of the node, and never one of an epoch below
//     what it has known.
//   - What is delivered is delivered under a lease: this node was, not longer
//     than that ago, in touch with a quorum or with every in-sync replica.
//   - A replica's data is moved aside only because metadata says that the node
//     does not hold it any more, or that others are in sync and it is not.
package broker
