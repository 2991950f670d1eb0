// Package lease bounds how long a process may act on what it knows: until when the leader of a
// partition may deliver (Lease, based on its node's Contact with a quorum), and whether the
// process or its machine was paused (Pulse, Suspension).
//
// It does not know what is delivered or how nodes communicate: the creator of a Lease passes in
// who confirms it. It stores nothing and starts no goroutine.
//
// Invariants:
//
//   - A lease is valid for at most its span after a moment at which every in-sync replica, or
//     without a gap since then a quorum, knew of no later leader.
//   - Process pauses, clock changes and machine suspension never extend it.
//   - Once a later leader is known, it is never valid again.
package lease
