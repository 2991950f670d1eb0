// Package sim simulates clusters of whole brokers in one process: real brokers, metadata and
// transports, on an in-memory network whose links are slowed, cut and broken, and on disks that lose
// power. Time is virtual; faults, loads and sizes come from a seed, which a failure prints. The
// simulation compares the answers and deliveries to clients with the final contents of the disks, and
// checks the invariants of docs/replication.md while it runs.
//
//	go test ./test/sim -sim.seeds 1000
//	go test ./test/sim -run TestBrokersLoseNothing -sim.seed 17
//
// A seed determines what is done and when, but not how the processors interleave the events of one
// moment of virtual time: a failure may need a few runs to recur. Seeds that once failed are kept in
// testdata/seeds.txt and run first.
package sim
