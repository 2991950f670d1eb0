// Package age computes the age of stored data with as little trust in wall clocks as possible.
//
// A timestamp in a log comes from the wall clock of some leader. That clock may differ from
// this node's, and either may be set while the process runs. Only the monotonic clock of a
// process never steps. A Clock therefore pairs the two at moments at which they are known to
// correspond: when a batch is appended here by the leader of its epoch, its timestamp is the
// leader's clock, and the local monotonic reading is taken at the same time. From then on the
// age of later batches is a difference of two readings of one clock, until the leader's clock
// is set or the leader changes, which starts the next pair.
//
// Without such a pair, for example after a restart, an age is a difference of wall clock
// readings and as wrong as they are. Callers bound what they derive from it: a message is never
// delivered later than its own delay after it was loaded.
//
// Both clocks are always read together: the wall time of a moment is never read a second time,
// because the time between two readings would count as age.
//
// Invariants:
//
//   - Age is never negative.
//   - A wall clock step does not change ages covered by a pair.
//   - Steady never runs ahead of the wall clock, and follows a forward step only after
//     StepTrust.
package age
