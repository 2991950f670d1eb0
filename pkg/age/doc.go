// Package age tells how old stored data is without trusting a wall clock more
// than it must.
//
// A timestamp in a log is a reading of some leader's wall clock. That clock may
// differ from this node's, and either may be set while the process runs. What
// never steps is the monotonic clock of one process. A Clock therefore pairs the
// two at the moments when they are known to belong together: when a batch is
// appended here by the leader of its epoch, its timestamp is what that leader's
// clock showed, and the local monotonic reading says when. From then on the age
// of the batches that follow is a difference of two readings of one clock, until
// the leader's clock is set or another leads: then the next pair begins.
//
// Without such a pair, as after a restart, an age is a difference of wall clock
// readings, and wrong by as much as they are. Callers bound what they derive
// from it: a message is never delivered later than its own delay after it was
// loaded.
//
// The two clocks are always read together: what the wall clock shows is asked of a
// moment, never a second time. What passes between two readings would count as age.
//
// Invariants:
//
//   - Age is never negative.
//   - A step of the wall clock changes no age that a pair covers.
//   - Steady never runs ahead of the wall clock, and follows it forward over a
//     step only after StepTrust.
package age
