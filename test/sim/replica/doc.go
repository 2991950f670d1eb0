// Package replica simulates the replicas of one partition: real logs, terms and
// followers (pkg/coord) on disks that lose power, over links that break, with
// metadata that arrives late. Time is virtual, faults come from a seed, and the
// invariants of docs/replication.md are checked while it runs.
//
// The metadata is a register that orders commands and loses answers. What
// elects leaders is careless on purpose: it is allowed whatever the rules allow.
//
// Mistakes can be planted in what surrounds the code under test; a simulation
// that would not find them would be worth nothing.
package replica
