// Package peertest is the network of pkg/peer in memory, for tests: links are
// slowed, cut and blocked, in real or in virtual time (testing/synctest). It
// carries bytes and does not know what is in them. Only tests import it.
package peertest
