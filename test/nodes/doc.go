// Package nodes runs a cluster of brokerd programs on one machine, for test programs and for trials
// by hand.
//
// It knows the command line, the locations of a node's data and log, how to start, signal and wait
// for a process, and the part of the HTTP API that tells when a cluster is whole. It does not know
// the NSQ protocol or the guarantees of a broker.
//
// Invariants: a node is started with the same command line every time; a process started here does
// not outlive this program; its output is kept.
package nodes
