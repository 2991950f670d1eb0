// Package lease says for how long what a process knows may be acted on: until when the
// leader of a partition may deliver (Lease, by its node's Contact with a quorum), and
// whether the process, or its machine, stood still meanwhile (Pulse, Suspension).
//
// It refuses to know what is delivered and how nodes reach each other: whoever makes a
// Lease hands in who confirms it. It keeps nothing, and starts no goroutine.
//
// Invariants:
//
//   - A lease holds no longer than its span after a moment at which every in-sync replica,
//     or without a gap since then a quorum, knew of no later leader.
//   - Neither a pause of the process nor a change of the time of day nor a suspension of
//     the machine makes it hold longer.
//   - Once a later leader is known it never holds again.
package lease
