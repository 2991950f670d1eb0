// Package replica simulates the replicas of one partition: real logs, terms and followers
// (pkg/coord) on disks that lose power, over links that break, with metadata that arrives late.
// Time is virtual, faults come from a seed, and the simulation checks the invariants of
// docs/replication.md while it runs.
//
// The metadata is a register that orders commands and loses answers. The simulated controller is
// careless on purpose: it does whatever the rules allow.
//
// Mistakes can be planted around the code under test. A test checks that the simulation finds each
// of them.
package replica
