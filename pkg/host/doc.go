// Package host is what a node does with the replicas on its disk: it opens and closes
// them, gives each the role that the metadata says, and looks after what they hold.
//
// It decides who leads here and until when, what is done about damaged, suspect or missing
// data, when positions are stored, what is deleted, and how full the disk may be. It does
// not know clients, consumers, publishes on their way or operators; how nodes reach each
// other it is given as a forward.Caller.
//
// Metadata says what should be; Converge makes it so. First start, restart, fail-over,
// transfer and deletion are one path: a replica leads, is on standby, or goes. What is held
// of a topic is changed in its lane, a replica in its own; many change at a time. Whoever
// looks something up does so in maps that Converge maintains, and waits for nothing.
//
// Invariants:
//
//  1. A replica takes a role only by metadata that is at least as new as the announcement
//     of this start of the node, and never one of an epoch below what it has known.
//  2. What is delivered is delivered under a lease: this node was, not longer than that
//     ago, in touch with a quorum or with every in-sync replica.
//  3. Data is moved aside only because metadata says that the node does not hold it any
//     more, or that others are in sync and this replica is not; it is deleted only because
//     a committed command deleted its topic, or a replica in sync has replaced it.
//  4. A transfer of a leadership acts on the topic of the incarnation that was meant.
//  5. A role that cannot be taken, and a replica that makes no progress, is named in the
//     health within five seconds.
//
// What taught them: docs/lessons.md. Start at New, which wires
// the parts: each has fields of its own for what it uses, and none has the Host. Then read
//
//	Topics      what is held of each topic, for those who look
//	Converger   the lanes in which that follows the metadata
//	roles       the role of a replica: it leads, is on standby, or goes
//	Quarantine  replicas that are damaged, suspect, missing or set aside
//	handovers   leaderships that go to other nodes
package host
