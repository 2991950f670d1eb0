// Package coordtest connects replicas in memory for replication tests, in real or virtual time
// (testing/synctest), with delays, broken sessions, one-way partitions and dead nodes. It carries
// calls without looking at their content. Only tests import it.
//
// Invariants, the same as of the real transport: calls of a session arrive in order, one at a time;
// a call completes exactly once, with its response or an error; when a link reports its session
// down, all calls of that session have completed; a session that lost something ends.
package coordtest
