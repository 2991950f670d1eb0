// Package nodes runs a cluster of brokerd programs on one machine, for test
// programs and for trials by hand.
//
// It knows the command line, where a node keeps its data and its log, how a
// process is started, signalled and waited for, and the little of the HTTP API
// that tells when a cluster is whole. It refuses to know the NSQ protocol and what
// is to be expected of a broker.
//
// Invariants: a node is started with the same command line every time; a process
// that was started here does not outlive this program; what it printed is kept.
package nodes
