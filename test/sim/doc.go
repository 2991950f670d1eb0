// Package sim simulates clusters of whole brokers in one process: real brokers,
// metadata and transports, on a network in memory whose links are slowed, cut
// and broken, and on disks that lose power. Time is virtual; faults, loads and
// sizes come from a seed, which a failure prints. What clients were told and what
// they got is checked against what the disks hold in the end, and what holds at
// any moment while it runs: see docs/replication.md.
//
//	go test ./test/sim -sim.seeds 1000
//	go test ./test/sim -run TestBrokersLoseNothing -sim.seed 17
//
// A seed fixes what is done and when, and not how the processors interleave what
// happens in one moment of virtual time: a failure may need a few runs to come
// again. Seeds that once failed stay in testdata/seeds.txt and are run first.
package sim
