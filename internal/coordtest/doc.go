// Package coordtest helps to test what replicates partitions: it connects
// replicas in memory, in real or in virtual time (testing/synctest), with delays,
// broken sessions, one-way cuts and dead nodes. It knows links and calls; it does
// not know what is in them. Only tests import it.
//
// Invariants, those of the real thing: calls of one session arrive in order and
// one after the other; a call ends once, with its answer or with an error; when a
// link is told that its session is down, all calls of that session have ended; a
// session in which something was lost breaks.
package coordtest
