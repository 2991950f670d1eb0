// Package peertest is an in-memory network for tests of pkg/peer. Links can be slowed, cut and
// blocked, in real or virtual time (testing/synctest). It carries bytes without interpreting them.
// Only tests import it.
package peertest
